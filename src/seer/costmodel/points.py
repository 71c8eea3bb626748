"""Measured times of steps, and which sets of them make sense."""

import math
from collections.abc import Sequence

import msgspec

from seer.errors import InvalidInput

MIN_STEP_POINTS = 6
"""Fewest different steps that a surface is fitted to."""
MAX_REPEAT_RATIO = 2.0
"""Times of the same work that differ by more contradict each other."""


class StepPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured decode step: the arguments of StepTime.step_s and its seconds."""

    num_requests: int
    num_tokens: int
    context_tokens: int
    """Sum over requests."""
    seconds: float

    @property
    def work(self) -> tuple[int, ...]:
        """What was measured."""
        return (self.num_requests, self.num_tokens, self.context_tokens)

    @property
    def is_sensible(self) -> bool:
        """Whether such a step exists."""
        counts = 1 <= self.num_requests <= self.num_tokens and self.context_tokens >= 0
        return counts and math.isfinite(self.seconds) and self.seconds > 0


class PrefillPoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured step that computes `num_tokens` of a prompt after `context_tokens`, no more."""

    num_tokens: int
    context_tokens: int
    seconds: float

    @property
    def work(self) -> tuple[int, ...]:
        """What was measured."""
        return (self.num_tokens, self.context_tokens)

    @property
    def is_sensible(self) -> bool:
        """Whether such a step exists."""
        counts = self.num_tokens >= 1 and self.context_tokens >= 0
        return counts and math.isfinite(self.seconds) and self.seconds > 0


def check_points(steps: Sequence[StepPoint], prefills: Sequence[PrefillPoint]) -> None:
    """Raise InvalidInput when points are impossible, contradict each other or are too few."""
    _check_one_kind("points", steps)
    _check_one_kind("prefill_points", prefills)
    num_different = len({point.work for point in steps})
    if num_different < MIN_STEP_POINTS:
        raise InvalidInput(
            "points", f"{num_different} different steps", f"allowed: at least {MIN_STEP_POINTS}"
        )
    for position, name in ((0, "num_requests"), (2, "context_tokens")):
        if len({point.work[position] for point in steps}) == 1:
            raise InvalidInput("points", f"one {name} only", "allowed: at least two different ones")


def _check_one_kind(field: str, points: Sequence[StepPoint] | Sequence[PrefillPoint]) -> None:
    first: dict[tuple[int, ...], StepPoint | PrefillPoint] = {}
    for point in points:
        if not point.is_sensible:
            raise InvalidInput(
                field, point, "allowed: seconds > 0, context >= 0, a token a request at least"
            )
        other = first.setdefault(point.work, point)
        ratio = max(point.seconds, other.seconds) / min(point.seconds, other.seconds)
        if ratio > MAX_REPEAT_RATIO:
            raise InvalidInput(
                field,
                point,
                f"contradicts another time of the same work, {other.seconds:g} s; "
                f"allowed: a factor of {MAX_REPEAT_RATIO:g}",
            )
