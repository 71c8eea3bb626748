"""Lanes: chunks of one instance side by side, so that no two of one lane overlap in time."""

import heapq
from collections.abc import Sequence

import numpy as np

from seer.report.chunk_table import Chunks
from seer.report.series import IntArray


class _Lanes:
    """Lanes of one instance, as time goes on."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._busy: list[tuple[float, int]] = []
        self._free: list[int] = []
        self._last: dict[int, int] = {}
        """Request to its latest lane."""

    def take(self, request: int, start: float, end: float) -> int:
        """The request's latest lane if it is free, else the first that is, else a new one."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        lane = self._last.get(request)
        if lane is None or self._ends[lane] > start:
            lane = self._first_free(start)
        self._ends[lane] = end
        self._last[request] = lane
        heapq.heappush(self._busy, (end, lane))
        return lane

    def _first_free(self, start: float) -> int:
        while self._free:
            lane = heapq.heappop(self._free)
            if self._ends[lane] <= start:  # else its latest request has taken it again
                return lane
        self._ends.append(start)
        return len(self._ends) - 1


def pack_lanes(chunks: Chunks, rows: Sequence[int] | IntArray) -> IntArray:
    """A lane for each of these rows: from 0 on each instance, as few as are needed.

    Chunks that start together are dealt longest first.
    """
    rows = np.asarray(rows, dtype=np.int64)
    order = np.lexsort((-chunks.end_s[rows], chunks.start_s[rows]))
    by_instance: dict[int, _Lanes] = {}
    lanes = np.zeros(len(rows), dtype=np.int64)
    for place in order.tolist():
        row = rows[place]
        instance = by_instance.setdefault(int(chunks.instance[row]), _Lanes())
        start, end = float(chunks.start_s[row]), float(chunks.end_s[row])
        lanes[place] = instance.take(int(chunks.request[row]), start, end)
    return lanes
