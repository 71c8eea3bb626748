"""The chunks of a rollout as a table of columns."""

import enum
from array import array
from dataclasses import dataclass

import numpy as np

from seer.report.series import BoolArray, FloatArray, IntArray


class Fate(enum.IntEnum):
    """How a chunk ended."""

    ENDED = 0
    """Reported by its instance."""
    LOST = 1
    """With its instance."""
    OPEN = 2
    """Not at all: the trace ends before."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunks:
    """One row a chunk, in the order in which they ended; open ones last."""

    request: IntArray
    """Row in `Requests`."""
    instance: IntArray
    start_s: FloatArray
    """When it was given to its instance (which may queue it, under a static policy)."""
    end_s: FloatArray
    num_tokens: IntArray
    """Tokens generated; those that were reported, of a chunk that was lost or is open."""
    is_loaded: BoolArray
    """Whether KV was taken from the pool for it."""
    is_last: BoolArray
    """Whether its request was complete with it."""
    fate: IntArray

    def __len__(self) -> int:
        return len(self.request)


class ChunkColumns:
    """`Chunks` while it grows."""

    def __init__(self) -> None:
        self._request, self._instance = array("q"), array("q")
        self._start, self._end = array("d"), array("d")
        self._tokens, self._fate = array("q"), array("q")
        self._loaded, self._last = array("b"), array("b")

    def __len__(self) -> int:
        return len(self._request)

    def add(  # noqa: PLR0917 - a row
        self,
        request: int,
        instance: int,
        start: float,
        end: float,
        num_tokens: int,
        is_loaded: bool,  # noqa: FBT001
        fate: Fate,
    ) -> None:
        """A chunk is over."""
        self._request.append(request)
        self._instance.append(instance)
        self._start.append(start)
        self._end.append(end)
        self._tokens.append(num_tokens)
        self._loaded.append(is_loaded)
        self._fate.append(fate)
        self._last.append(0)

    def mark_last(self, request: int, t: float) -> None:
        """A request is complete at a time: with its chunk that has ended then, if there is one."""
        for row in range(len(self) - 1, -1, -1):
            if self._end[row] != t:
                return
            if self._request[row] == request:
                self._last[row] = 1
                return

    def table(self, origin: float) -> Chunks:
        """All of it; times count from `origin`."""
        return Chunks(
            request=np.array(self._request),
            instance=np.array(self._instance),
            start_s=np.array(self._start) - origin,
            end_s=np.array(self._end) - origin,
            num_tokens=np.array(self._tokens),
            is_loaded=np.array(self._loaded, dtype=np.bool_),
            is_last=np.array(self._last, dtype=np.bool_),
            fate=np.array(self._fate),
        )
