"""Rounds: the times in which some group is unfinished, as the metrics count them."""

from dataclasses import dataclass

from seer.rollout.metrics import tail_start
from seer.types import GroupSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A time in which some group is unfinished."""

    start_s: float
    tail_s: float | None
    """When 90 % of its requests were finished; None: they are not."""
    end_s: float
    """When its last request finished; the trace's end for one that goes on."""


class Rounds:
    """Rounds so far, and the one that goes on."""

    def __init__(self) -> None:
        self.done: list[Round] = []
        self._start: float | None = None
        self._num_requests = 0
        self._finish_times: list[float] = []
        self._groups: set[int] = set()

    def submit(self, t: float, groups: tuple[GroupSpec, ...]) -> None:
        """Groups come at a time."""
        self._start = t if self._start is None else self._start
        self._num_requests += sum(group.group_size for group in groups)
        self._groups.update(group.group_id for group in groups)

    def finish(self, t: float) -> None:
        """A request is complete."""
        self._finish_times.append(t)

    def finish_group(self, t: float, group_id: int) -> None:
        """A group is complete; with the last one the round ends."""
        self._groups.discard(group_id)
        if not self._groups:
            self.done += self.under_way(t)
            self._start, self._num_requests, self._finish_times = None, 0, []

    def under_way(self, now: float) -> list[Round]:
        """The round that goes on, as it is `now`; none between rounds."""
        if self._start is None:
            return []
        tail = tail_start(self._num_requests, self._finish_times)
        return [Round(start_s=self._start, tail_s=tail, end_s=now)]


def shifted(each: Round, origin: float) -> Round:
    """The same round with its times counted from `origin`."""
    return Round(
        start_s=each.start_s - origin,
        tail_s=None if each.tail_s is None else each.tail_s - origin,
        end_s=each.end_s - origin,
    )
