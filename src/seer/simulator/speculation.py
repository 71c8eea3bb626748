"""Speculative decoding in the simulator: how many tokens a step yields, and what it verifies.

A draft position is accepted with a probability that grows with the number of finished siblings,
whose texts are in the group's tree (paper Table 2). With g draft positions a request gains
(1 - a^(g+1)) / (1 - a) tokens a step (paper section 3.4.1). Several paths raise a, and verify as
many tokens more. Each instance takes the plan that yields most tokens a second for its batch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from seer.costmodel.step_time import StepTime
from seer.errors import InvalidInput

PAPER_TABLE_2: Mapping[int, Mapping[int, float]] = {
    1: {0: 1.70, 1: 2.04, 5: 2.32, 15: 2.53},
    2: {0: 1.77, 1: 2.14, 5: 2.44, 15: 2.69},
    4: {0: 1.85, 1: 2.25, 5: 2.59, 15: 2.85},
}
"""Acceptance length, bonus token included: paths, then reference responses (paper Table 2)."""
REFERENCE_DRAFT = 8
"""Draft positions that the table is taken to have. # Paper silent: what Table 2 drafted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What each request of a batch drafts in a step."""

    positions: int
    paths: int

    @property
    def draft_tokens(self) -> int:
        """Draft tokens a request."""
        return self.positions * self.paths


NO_DRAFTS = Plan(0, 1)


def acceptance_length(acceptance: float, positions: int) -> float:
    """Tokens that a step yields, bonus token included (paper section 3.4.1)."""
    if acceptance >= 1:
        return positions + 1.0
    return (1 - acceptance ** (positions + 1)) / (1 - acceptance)


def solve_acceptance(length: float, positions: int) -> float:
    """The acceptance probability at which `acceptance_length` is `length`."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if acceptance_length(middle, positions) < length else (low, middle)
        )
    return low


@dataclass(frozen=True)
class Acceptance:
    """Acceptance probability of a draft position, by paths and finished siblings.

    `lengths` holds acceptance lengths with `REFERENCE_DRAFT` positions: by paths, then by number of
    finished siblings; between two numbers it is interpolated over log(1 + siblings). `scale`
    multiplies the tokens gained. `grouped` False: siblings do not count (vanilla suffix drafting).
    """

    lengths: Mapping[int, Mapping[int, float]] = field(default_factory=lambda: PAPER_TABLE_2)
    scale: float = 1.0
    grouped: bool = True
    max_positions: int = 8
    """Most draft positions of a request (the paper's gamma_max)."""

    def __post_init__(self) -> None:
        if not self.lengths or any(not row for row in self.lengths.values()):
            raise InvalidInput("lengths", self.lengths, "allowed: a row for each number of paths")
        if not self.scale >= 0:
            raise InvalidInput("scale", self.scale, "allowed: a number >= 0")

    def probability(self, paths: int, siblings: int) -> float:
        """Of one draft position."""
        row = sorted(self.lengths[paths].items())
        known = siblings if self.grouped else 0
        length = 1 + self.scale * (_interpolate(row, known) - 1)
        return solve_acceptance(min(length, REFERENCE_DRAFT + 0.5), REFERENCE_DRAFT)


def _interpolate(row: list[tuple[int, float]], siblings: int) -> float:
    if siblings <= row[0][0]:
        return row[0][1]
    for (low, at_low), (high, at_high) in pairwise(row):
        if siblings <= high:
            share = math.log((1 + siblings) / (1 + low)) / math.log((1 + high) / (1 + low))
            return at_low + share * (at_high - at_low)
    return row[-1][1]


class Speculation:
    """Plans drafts of batches under one step-time model; remembers what it has worked out."""

    def __init__(self, acceptance: Acceptance, step_time: StepTime) -> None:
        self.acceptance = acceptance
        self._step_time = step_time
        self._probabilities: dict[tuple[int, int], float] = {}
        self._plans: dict[tuple[int, int, int], Plan] = {}

    def rate(self, plan: Plan, siblings: int) -> float:
        """Tokens a step of a request with so many finished siblings."""
        if not plan.positions:
            return 1.0
        return acceptance_length(self._probability(plan.paths, siblings), plan.positions)

    def plan(self, counts: Mapping[int, int], context_tokens: float) -> Plan:
        """The best plan for a batch: requests by number of finished siblings."""
        num_requests = sum(counts.values())
        siblings = round(sum(n * count for n, count in counts.items()) / num_requests)
        key = (num_requests, siblings, round(8 * math.log(1 + context_tokens)))
        if key not in self._plans:
            self._plans[key] = self._best(num_requests, siblings, context_tokens)
        return self._plans[key]

    def _best(self, num_requests: int, siblings: int, context_tokens: float) -> Plan:
        options = [NO_DRAFTS] + [
            Plan(positions, paths)
            for paths in self.acceptance.lengths
            for positions in range(1, self.acceptance.max_positions + 1)
        ]

        def tokens_per_s(plan: Plan) -> float:
            drafted = plan.draft_tokens * num_requests
            seconds = self._step_time.step_s(num_requests, num_requests + drafted, context_tokens)
            seconds += self._step_time.draft_s(num_requests, drafted)
            return self.rate(plan, siblings) / seconds

        return max(options, key=tokens_per_s)

    def _probability(self, paths: int, siblings: int) -> float:
        key = (paths, siblings)
        if key not in self._probabilities:
            self._probabilities[key] = self.acceptance.probability(paths, siblings)
        return self._probabilities[key]
