"""From scores to pass or fail, with the numbers behind it. Pure.

A right engine fails with a probability of at most `false_alarm`: the p-values of all arms' tests
are held against that, divided by their number (Bonferroni). Besides there is what chance does not
explain: a token that the filters exclude, log-probabilities that are not the tokens' own, or
nothing drafted or moved where that was to be tested.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from seer.engines.fidelity.report import ArmReport, CheckReport, SeedReport
from seer.engines.fidelity.scores import Floats, TokenScores
from seer.engines.fidelity.statistics import (
    Pairs,
    independence_p_value,
    ranks_p_value,
    sharpness,
    uniform_ranks,
    uniformity_p_value,
)
from seer.errors import InvalidInput

_TESTS = {
    "sharpness_p": "drawn as at another temperature",
    "ranks_p": "likely and unlikely tokens do not come as often as they should",
    "independence_p": "draws repeat each other",
    "seeds_p": "the seeds' p-values lie near 0",
}
"""P-values of an arm, and what a small one says."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """How far an engine's numbers may lie from the reference's."""

    sharpness: float
    """Relative error of the temperature."""
    largest_gap: float
    """|Log-probability reported - rescored| of any token."""
    mean_gap: float
    """Its mean."""
    shortfall: float
    """Nats by which a drawn token may miss the filters' cut."""


ALLOWANCES = {
    "float32": Allowance(sharpness=0.0, largest_gap=1e-3, mean_gap=1e-4, shortfall=1e-2),
    "bfloat16": Allowance(sharpness=0.005, largest_gap=2.0, mean_gap=0.1, shortfall=1.0),
    "float16": Allowance(sharpness=0.001, largest_gap=0.5, mean_gap=0.02, shortfall=0.2),
}
"""By the engine's dtype. In half precision its model is not quite the reference's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one arm."""

    arm: str
    scores: TokenScores
    """Of all tokens: responses one after the other."""
    reported: Floats
    """(n,) log-probabilities as the engine gave them."""
    lengths: Sequence[int]
    """Tokens of each response."""
    temperature: float
    num_seeds: int
    """Each has the same number of responses, in order."""
    group_size: int
    """Responses to one prompt, next to each other."""
    chunk_size: int | None
    """Tokens of a chunk; None: whole responses."""
    num_drafted: int
    num_accepted: int
    num_moves: int
    wants_drafts: bool
    """Whether the arm says something only if drafts were verified,"""
    wants_moves: bool
    """and only if requests moved."""


def judge(
    evidence: Sequence[Evidence], allowance: Allowance, false_alarm: float, seed: int = 0
) -> CheckReport:
    """Test every arm; `seed` decides the uniform part of the ranks.

    Raises InvalidInput when `false_alarm` is not between 0 and 1.
    """
    if not 0 < false_alarm < 1:
        raise InvalidInput("false_alarm", false_alarm, "allowed: above 0, below 1")
    least_p = false_alarm / (len(_TESTS) * len(evidence))
    rng = np.random.default_rng(seed)
    arms = [_measure(each, allowance, rng) for each in evidence]
    judged = tuple(
        msgspec.structs.replace(arm, failures=tuple(_failures(arm, each, allowance, least_p)))
        for arm, each in zip(arms, evidence, strict=True)
    )
    return CheckReport(false_alarm=false_alarm, least_p=least_p, arms=judged)


def _measure(evidence: Evidence, allowance: Allowance, rng: np.random.Generator) -> ArmReport:
    scores = evidence.scores
    ranks = uniform_ranks(scores, rng)
    sharp = sharpness(scores, allowance.sharpness)
    seeds = tuple(_seeds(evidence, ranks, allowance))
    gaps = np.abs(evidence.reported - scores.logprob)
    inverse = (1 + sharp.excess) / evidence.temperature
    return ArmReport(
        arm=evidence.arm,
        num_tokens=len(scores),
        num_drafted=evidence.num_drafted,
        num_accepted=evidence.num_accepted,
        num_moves=evidence.num_moves,
        temperature=1 / inverse if inverse > 0 else math.inf,
        temperature_error=evidence.temperature * sharp.std_error,
        sharpness_p=sharp.p_value,
        ranks_p=ranks_p_value(ranks),
        independence_p=independence_p_value(ranks, _pairs(evidence)),
        seeds_p=uniformity_p_value([seed.ranks_p for seed in seeds]),
        largest_gap=float(gaps.max()),
        mean_gap=float(gaps.mean()),
        num_excluded=int((scores.shortfall > allowance.shortfall).sum()),
        seeds=seeds,
    )


def _seeds(evidence: Evidence, ranks: Floats, allowance: Allowance) -> Iterator[SeedReport]:
    """Every seed by itself."""
    per_seed = len(evidence.lengths) // evidence.num_seeds
    ends = np.cumsum(evidence.lengths)[per_seed - 1 :: per_seed]
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        part = slice(int(start), int(stop))
        sharp = sharpness(evidence.scores.part(part), allowance.sharpness)
        yield SeedReport(sharpness_p=sharp.p_value, ranks_p=ranks_p_value(ranks[part]))


def _pairs(evidence: Evidence) -> Pairs:
    """Tokens at one place of neighbouring siblings, and at one place of neighbouring chunks."""
    starts = np.concatenate([[0], np.cumsum(evidence.lengths)]).astype(np.intp)
    first, second = [], []
    for index, length in enumerate(evidence.lengths):
        own = np.arange(starts[index], starts[index + 1])
        if (index + 1) % evidence.group_size and index + 1 < len(evidence.lengths):
            common = min(length, evidence.lengths[index + 1])
            first.append(own[:common])
            second.append(np.arange(starts[index + 1], starts[index + 1] + common))
        if evidence.chunk_size is not None:
            first.append(own[: -evidence.chunk_size])
            second.append(own[evidence.chunk_size :])
    if not first:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    return np.concatenate(first), np.concatenate(second)


def _failures(
    arm: ArmReport, evidence: Evidence, allowance: Allowance, least_p: float
) -> Iterator[str]:
    for name, meaning in _TESTS.items():
        p_value = getattr(arm, name)
        if not p_value >= least_p:
            yield f"{meaning}: p = {p_value:.2g}, below {least_p:.2g}"
    if arm.num_excluded:
        yield f"{arm.num_excluded} tokens that the sampling's filters exclude"
    if not (arm.largest_gap <= allowance.largest_gap and arm.mean_gap <= allowance.mean_gap):
        yield (
            f"log-probabilities are not the tokens' own: off by {arm.mean_gap:.2g} on average, "
            f"{arm.largest_gap:.2g} at most; allowed: {allowance.mean_gap:g} and "
            f"{allowance.largest_gap:g}"
        )
    if evidence.wants_drafts and not arm.num_accepted:
        yield f"{arm.num_drafted} guesses verified, none accepted: nothing is known of drafts"
    if evidence.wants_moves and not arm.num_moves:
        yield "no request moved: nothing is known of moves"
