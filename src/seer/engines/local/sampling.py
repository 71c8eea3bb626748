"""How tokens are drawn, and the torch reference of the native sampler.

A token is the inverse CDF of the processed distribution at the keyed uniform number of its place
(`engines/keyed.py`), tokens in id order. Processing follows vLLM: temperature, then min-p, top-k,
top-p over what is left; ties at a cut are kept. Temperature 0 takes the likeliest token (lowest id
among equals) and reports its log-probability at temperature 1 without filters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seer.engines.serving.step_model import Draws
from seer.types import SamplingParams

SAMPLE_ROW = np.dtype(
    [
        ("temperature", np.float32),
        ("top_p", np.float32),
        ("min_p", np.float32),
        ("top_k", np.int32),
        ("uniform", np.float64),
    ]
)
"""One row's parameters, laid out as `SampleRow` in csrc/cpu_ops/ops.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParams:
    """Parameters of every row of a step."""

    rows: NDArray[np.void]
    """[rows] of SAMPLE_ROW"""
    raw: bool
    """Report log-probabilities of the unprocessed distribution."""


def sample_params(
    params: Sequence[SamplingParams], uniforms: NDArray[np.float64], *, raw: bool
) -> SampleParams:
    """Collect the rows' parameters. `uniforms` is one number in [0, 1) a row."""
    rows = np.empty(len(params), dtype=SAMPLE_ROW)
    for i, p in enumerate(params):
        rows[i] = (p.temperature, p.top_p, p.min_p, p.top_k, uniforms[i])
    return SampleParams(rows=rows, raw=raw)


def sample_torch(logits: Tensor, params: SampleParams) -> Draws:
    """Draw with torch operations, on the device of `logits` [rows, vocab]."""
    logits = logits.double()
    device = logits.device
    column = {
        name: torch.from_numpy(params.rows[name].astype(np.float64)).to(device)[:, None]
        for name in SAMPLE_ROW.names or ()
    }
    greedy = column["temperature"] == 0
    scaled = logits / torch.where(greedy, 1.0, column["temperature"])
    cut = _cut(scaled, column)
    kept = scaled.masked_fill((scaled < cut) & ~greedy, -torch.inf)
    logprobs = torch.log_softmax(kept, dim=-1)
    cdf = logprobs.exp().cumsum(-1)
    drawn = torch.searchsorted(cdf, column["uniform"] * cdf[:, -1:], right=True)
    last = _last_kept(kept)
    drawn = torch.minimum(drawn, last)
    tokens = torch.where(greedy, logits.argmax(-1, keepdim=True), drawn)
    if params.raw:
        logprobs = torch.log_softmax(logits, dim=-1)
    picked = logprobs.gather(-1, tokens)[:, 0]
    return Draws(token_ids=tokens[:, 0].tolist(), logprobs=picked.tolist())


def _last_kept(kept: Tensor) -> Tensor:
    """Highest token id that may be drawn: rounding may put the target past the CDF's end."""
    ids = torch.arange(kept.shape[-1], device=kept.device)
    return torch.where(kept > -torch.inf, ids, -1).amax(-1, keepdim=True)


def _cut(scaled: Tensor, column: dict[str, Tensor]) -> Tensor:
    """The logit (already over temperature) that a token must reach to be kept, [rows, 1]."""
    vocab = scaled.shape[-1]
    top = scaled.amax(-1, keepdim=True)
    cut = top + column["min_p"].log()
    top_k, top_p = column["top_k"], column["top_p"]
    if bool((top_k > 0).any()) or bool((top_p < 1).any()):
        ordered = scaled.sort(-1, descending=True).values
        rank = torch.where(top_k > 0, top_k, vocab).clamp(max=vocab).long() - 1
        cut = torch.maximum(cut, ordered.gather(-1, rank))
        weights = (ordered - top).exp().masked_fill(ordered < cut, 0.0)
        sums = weights.cumsum(-1)
        place = torch.searchsorted(sums, top_p * sums[:, -1:]).clamp(max=vocab - 1)
        nucleus = ordered.gather(-1, place)
        cut = torch.where(top_p < 1, torch.maximum(cut, nucleus), cut)
    return cut
