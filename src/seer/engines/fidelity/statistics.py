"""Whether tokens were drawn from the distribution that they should come from. Pure.

Three questions, each with a p-value that a right sampler makes uniform, whatever the model and the
text. They hold token by token given everything before it, so neither the text nor how many tokens
a step took may matter; with drafts this is what losslessness says.

- *Sharpness*: the sum of log p(x) + entropy has mean 0 and the variance of its terms. It is the
  score of the likelihood in the inverse temperature, so no test sees a wrong temperature sooner.
- *Ranks*: the probability of the likelier tokens, plus a uniform part of the token's own, is
  uniform on [0, 1]. Counted in bins, closer at the unlikely end, where wrong tokens are.
- *Independence*: those uniform numbers of two tokens are uncorrelated. Draws that are used twice
  (a seed that begins anew with every chunk, siblings with one seed) are right one by one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.engines.fidelity.scores import Floats, TokenScores

RANK_EDGES = (*(i / 20 for i in range(1, 20)), 0.97, 0.99, 0.997, 0.999, 0.9999)
_LEAST_EXPECTED = 5.0
"""Bins with fewer tokens expected are counted together with the one before."""
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Places of the first and of the second token of each pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharpness:
    """Whether texts are as likely as they should be."""

    p_value: float
    excess: float
    """Relative error of the inverse temperature, estimated: 0.03 means drawn 3 % too sharp."""
    std_error: float
    """Of `excess`."""


def sharpness(scores: TokenScores, tolerance: float = 0.0) -> Sharpness:
    """Test the mean of log p(x) + entropy.

    A relative error of the inverse temperature up to `tolerance` counts as right: room for a model
    that is computed with rounding, whose distribution is slightly another one.
    """
    information = float(scores.variance.sum())
    if information <= 0:
        return Sharpness(p_value=1.0, excess=0.0, std_error=math.inf)
    total = float((scores.logprob + scores.entropy).sum())
    beyond = max(0.0, abs(total) - tolerance * information)
    return Sharpness(
        p_value=normal_p_value(beyond / math.sqrt(information)),
        excess=total / information,
        std_error=1 / math.sqrt(information),
    )


def uniform_ranks(scores: TokenScores, rng: np.random.Generator) -> Floats:
    """(n,) numbers that a right sampler makes independent and uniform on [0, 1]."""
    return scores.above + rng.random(len(scores)) * scores.mass


def ranks_p_value(ranks: Floats) -> float:
    """Chi-square test of uniform numbers against uneven bins."""
    edges = _merged(np.array([0.0, *RANK_EDGES, 1.0]), len(ranks))
    if len(edges) < 3:  # noqa: PLR2004 - fewer than two bins say nothing
        return 1.0
    observed, _ = np.histogram(ranks, edges)
    expected = len(ranks) * np.diff(edges)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return chi_square_p_value(statistic, len(expected) - 1)


def independence_p_value(ranks: Floats, pairs: Pairs) -> float:
    """Test the correlation of pairs of uniform numbers; no pair twice."""
    first, second = pairs
    if len(first) == 0:
        return 1.0
    products = 12.0 * (ranks[first] - 0.5) * (ranks[second] - 0.5)
    return normal_p_value(float(products.sum()) / math.sqrt(len(first)))


def uniformity_p_value(p_values: Sequence[float]) -> float:
    """Whether p-values lie nearer to 0 than uniform ones: one-sided Kolmogorov-Smirnov.

    Asymptotic, with Stephens' correction for few values.
    """
    ordered = np.sort(np.asarray(p_values, np.float64))
    count = len(ordered)
    if count == 0:
        return 1.0
    gap = float((np.arange(1, count + 1) / count - ordered).max())
    root = math.sqrt(count)
    return math.exp(-2 * (max(gap, 0.0) * (root + 0.12 + 0.11 / root)) ** 2)


def normal_p_value(z: float) -> float:
    """Two-sided."""
    return math.erfc(abs(z) / math.sqrt(2))


def chi_square_p_value(statistic: float, freedom: int) -> float:
    """Chance of a chi-square of at least `statistic`, exactly, for 1 degree of freedom or more."""
    half = statistic / 2
    if freedom % 2 == 0:
        term, tail = math.exp(-half), 0.0
        steps = range(1, freedom // 2 + 1)
        for step in steps:
            tail += term
            term *= half / step
        return min(1.0, tail)
    tail = math.erfc(math.sqrt(half))
    term = math.sqrt(half) * math.exp(-half) / math.gamma(1.5)
    for step in range(1, freedom // 2 + 1):
        tail += term
        term *= half / (step + 0.5)
    return min(1.0, tail)


def _merged(edges: Floats, count: int) -> Floats:
    """Edges whose bins expect enough of `count` numbers; narrow ones are joined at the top."""
    kept = [float(edges[0])]
    for edge in edges[1:-1]:
        is_wide = count * (edge - kept[-1]) >= _LEAST_EXPECTED
        if is_wide and count * (1.0 - edge) >= _LEAST_EXPECTED:
            kept.append(float(edge))
    return np.array([*kept, 1.0])
