"""A rollout over time, as the charts and the Perfetto export need it: tables of columns.

Times are seconds since the first groups were submitted.
"""

from dataclasses import dataclass

import numpy as np

from seer.report.chunk_table import Chunks
from seer.report.instance_log import InstanceLine
from seer.report.rounds import Round
from seer.report.series import BoolArray, FloatArray, IntArray
from seer.rollout.metrics import RolloutMetrics
from seer.types import GroupSpec, RequestId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """One row a request, in the order of submission."""

    group: IntArray
    member: IntArray
    num_tokens: IntArray
    """All output tokens."""
    finish_s: FloatArray
    """NaN for those that are not complete."""
    is_cancelled: BoolArray

    def __len__(self) -> int:
        return len(self.group)

    def id_of(self, row: int) -> RequestId:
        """Name of a request."""
        return RequestId(int(self.group[row]), int(self.member[row]))

    @property
    def has_length(self) -> BoolArray:
        """Whether its true length is known: complete, and not cancelled."""
        known: BoolArray = np.isfinite(self.finish_s) & ~self.is_cancelled
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A group, when it came."""

    spec: GroupSpec
    first_request: int
    """Row of its member 0; the others follow."""
    num_chunks_before: int
    """Chunks that had ended when it was submitted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """One trace."""

    policy: str
    is_simulated: bool
    is_static: bool
    """Whether instances queue their requests by themselves."""
    metrics: RolloutMetrics
    instances: tuple[InstanceLine, ...]
    chunks: Chunks
    requests: Requests
    submissions: tuple[Submission, ...]
    rounds: tuple[Round, ...]
    end_s: float
    """Last finished request; the last record of a trace that was cut short."""
    losses: tuple[tuple[float, int], ...]
    """Times at which an instance was lost, with its number."""

    @property
    def finish_times(self) -> FloatArray:
        """Of all complete requests, ascending."""
        finished: FloatArray = np.sort(self.requests.finish_s[np.isfinite(self.requests.finish_s)])
        return finished

    @property
    def mean_running(self) -> float:
        """Requests running on all instances, averaged over the rounds."""
        total_s = sum(r.end_s - r.start_s for r in self.rounds)
        if total_s <= 0:
            return 0.0
        edges = [np.array([r.start_s, r.end_s]) for r in self.rounds if r.end_s > r.start_s]
        area = sum(
            float(line.running.on_grid(edge)[0]) * float(edge[1] - edge[0])
            for line in self.instances
            for edge in edges
        )
        return area / total_s
