"""How sampled tokens stand in the distribution that they should come from. Pure.

The distribution is that of a reference model's logits, processed as vLLM does: temperature, then
min-p, top-k and top-p over what is left, ties at a cut kept. Written apart from the engines'
samplers on purpose: an error there must not be repeated here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.types import SamplingParams

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """Of n tokens, each in the distribution of its own place."""

    logprob: Floats
    """(n,) of the token; of one at the filters' cut where the token is beyond it."""
    entropy: Floats
    """(n,) nats: minus the expected log-probability."""
    variance: Floats
    """(n,) of the log-probability of a token drawn there."""
    above: Floats
    """(n,) probability of the likelier tokens (of equal ones, those with a lower id)."""
    mass: Floats
    """(n,) probability of the token."""
    shortfall: Floats
    """(n,) by how many nats the token missed the cut of the filters; 0: it may be drawn."""

    def __len__(self) -> int:
        return len(self.logprob)

    def part(self, which: slice | NDArray[np.intp]) -> "TokenScores":
        """The scores of some of the tokens."""
        return TokenScores(**{name: getattr(self, name)[which] for name in _FIELDS})


_FIELDS = ("logprob", "entropy", "variance", "above", "mass", "shortfall")


def score_tokens(
    logits: NDArray[np.float32], token_ids: NDArray[np.integer], sampling: SamplingParams
) -> TokenScores:
    """Score one token a row. `logits` is (n, vocabulary); the temperature must be above 0."""
    scaled = logits / np.float32(sampling.temperature)
    scaled -= scaled.max(-1, keepdims=True)
    cut = _cut(scaled, sampling)
    rows = np.arange(len(token_ids))
    own = scaled[rows, token_ids][:, None]
    weights = np.exp(scaled)
    if cut is not None:
        weights[scaled < cut] = 0.0
    total = weights.sum(-1, keepdims=True, dtype=np.float64)
    mean = (weights * scaled).sum(-1, keepdims=True, dtype=np.float64) / total
    variance = (weights * (scaled - mean) ** 2).sum(-1, dtype=np.float64) / total[:, 0]
    allowed = own if cut is None else np.maximum(own, cut)
    above = (weights * _is_before(scaled, own, token_ids)).sum(-1, dtype=np.float64) / total[:, 0]
    return TokenScores(
        logprob=(allowed - np.log(total))[:, 0],
        entropy=(np.log(total) - mean)[:, 0],
        variance=variance,
        above=np.minimum(above, 1.0),
        mass=weights[rows, token_ids] / total[:, 0],
        shortfall=(allowed - own)[:, 0].astype(np.float64),
    )


def joined(parts: Sequence[TokenScores]) -> TokenScores:
    """Scores of several batches, one after the other."""
    return TokenScores(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS}
    )


def _is_before(
    scaled: NDArray[np.float32], own: NDArray[np.float32], token_ids: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Whether each token of the vocabulary comes before the row's own one."""
    ids = np.arange(scaled.shape[-1])
    is_before: NDArray[np.bool_] = (scaled > own) | ((scaled == own) & (ids < token_ids[:, None]))
    return is_before


def _cut(scaled: NDArray[np.float32], sampling: SamplingParams) -> NDArray[np.float32] | None:
    """(n, 1) the least logit, over temperature and below the top's, that is kept; None: all are."""
    if sampling.min_p == 0 and sampling.top_k == 0 and sampling.top_p == 1:
        return None
    ordered = -np.sort(-scaled, axis=-1)
    vocab = scaled.shape[-1]
    floor = np.log(sampling.min_p) if sampling.min_p > 0 else -np.inf
    cut = np.full((len(scaled), 1), floor, np.float32)
    if 0 < sampling.top_k < vocab:
        cut = np.maximum(cut, ordered[:, sampling.top_k - 1 : sampling.top_k])
    if sampling.top_p < 1:
        weights = np.where(ordered < cut, 0.0, np.exp(ordered.astype(np.float64)))
        before = np.cumsum(weights, -1) - weights
        is_kept = (before < sampling.top_p * weights.sum(-1, keepdims=True)) & (weights > 0)
        last = np.maximum(is_kept.sum(-1, keepdims=True) - 1, 0)
        cut = np.maximum(cut, np.take_along_axis(ordered, last, -1))
    return cut
