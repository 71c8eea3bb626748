"""What one instance ran and held over time.

Under a divided policy all chunks in flight run, and KV is followed from the actions (`held_kv.py`).
Under a static policy an instance queues requests by itself and nobody sees when one is admitted or
preempted: there both quantities are those that the instance reported with the end of each chunk.
Running requests are then the chunks in flight less those reported as waiting; before the first
report, at most as many as ran when it came. KV is joined by straight lines between reports.
"""

from array import array
from dataclasses import dataclass

import numpy as np

from seer.report.held_kv import HeldKV
from seer.report.series import FloatArray, Lines, Steps
from seer.types import EngineInfo, InstanceLoad

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InstanceLine:
    """One instance over time."""

    instance_id: int
    kv_capacity_tokens: int
    running: Steps
    """Requests that run."""
    kv: Lines
    """KV tokens in use."""


class InstanceLog:
    """Takes in the events of one instance; times in seconds, not decreasing."""

    def __init__(self, instance_id: int, info: EngineInfo, *, is_static: bool) -> None:
        self._instance_id = instance_id
        self._info = info
        self._is_static = is_static
        self.held = HeldKV()
        self._num_in_flight = 0
        self._num_waiting = _UNKNOWN
        self._times, self._in_flight, self._waiting = array("d"), array("q"), array("q")
        self._report_times, self._reported_tokens = array("d"), array("d")

    def join(self, t: float) -> None:
        """The instance is up, with nothing on it."""
        self.held.clear(t)
        self._num_in_flight, self._num_waiting = 0, _UNKNOWN
        self._sample(t)
        self._report_used(t, 0)

    def leave(self, t: float) -> None:
        """The instance is lost."""
        self.join(t)

    def take_off(self, t: float) -> None:
        """A chunk is given to it."""
        self._num_in_flight += 1
        self._sample(t)

    def land(self, t: float) -> None:
        """A chunk of it is over."""
        self._num_in_flight -= 1
        self._sample(t)

    def report(self, t: float, load: InstanceLoad) -> None:
        """It has reported its load; comes after `land` of the same event."""
        self._num_waiting = load.num_waiting
        self._sample(t)
        self._report_used(t, self._info.kv_capacity_tokens - load.free_kv_tokens)

    def line(self, origin: float) -> InstanceLine:
        """All of it; times count from `origin`, earlier ones become 0."""
        reported = Lines(np.array(self._report_times), np.array(self._reported_tokens))
        kv = reported if self._is_static else self.held.line()
        return InstanceLine(
            instance_id=self._instance_id,
            kv_capacity_tokens=self._info.kv_capacity_tokens,
            running=Steps(_since(origin, np.array(self._times)), self._running()),
            kv=Lines(_since(origin, kv.times), kv.values),
        )

    def _running(self) -> FloatArray:
        in_flight = np.array(self._in_flight, dtype=np.float64)
        if not self._is_static:
            return in_flight
        waiting = np.array(self._waiting, dtype=np.float64)
        most = np.full(len(in_flight), float(self._info.max_running_requests))
        known = waiting != _UNKNOWN
        if known.any():
            first = int(np.argmax(known))
            most[:first] = min(most[0], in_flight[first] + 1 - waiting[first])
        running: FloatArray = np.where(known, in_flight - waiting, np.minimum(in_flight, most))
        return np.maximum(running, 0.0)

    def _sample(self, t: float) -> None:
        if self._times and self._times[-1] == t:
            self._in_flight[-1], self._waiting[-1] = self._num_in_flight, self._num_waiting
            return
        self._times.append(t)
        self._in_flight.append(self._num_in_flight)
        self._waiting.append(self._num_waiting)

    def _report_used(self, t: float, num_tokens: int) -> None:
        self._report_times.append(t)
        self._reported_tokens.append(num_tokens)


def _since(origin: float, times: FloatArray) -> FloatArray:
    return np.maximum(times - origin, 0.0)
