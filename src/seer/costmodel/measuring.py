"""From timed steps to points that a surface is fitted to. The clock is the caller's."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from seer.costmodel.points import StepPoint

CaseT = TypeVar("CaseT", bound=tuple[int, ...])
StepCase = tuple[int, int, int]
"""(requests, KV tokens each has, tokens each feeds) of a decode step."""


def _as_they_are(cases: Sequence[CaseT], index: int) -> Iterable[CaseT]:
    del index
    return cases


def fastest(
    cases: Sequence[CaseT],
    time_one: Callable[..., float],
    repeats: int,
    in_round: Callable[[Sequence[CaseT], int], Iterable[CaseT]] = _as_they_are,
) -> list[float]:
    """The least of `repeats` times of each case, in seconds: what disturbs a step prolongs it.

    All cases are run in turn, `repeats` times over, so that a disturbance spoils one time of many
    cases, not all times of one. A first round, which touches memory first, is left out. `in_round`
    goes through the cases of round 0, 1, ..., where progress is to be shown.
    """
    rounds = [[time_one(*case) for case in in_round(cases, index)] for index in range(repeats + 1)]
    return [min(times) for times in zip(*rounds[1:], strict=True)]


def step_points(cases: Sequence[StepCase], seconds: Sequence[float]) -> tuple[StepPoint, ...]:
    """The points of timed decode steps."""
    return tuple(
        StepPoint(
            num_requests=batch,
            num_tokens=batch * width,
            context_tokens=batch * context,
            seconds=each,
        )
        for (batch, context, width), each in zip(cases, seconds, strict=True)
    )
