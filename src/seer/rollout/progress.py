"""Progress of a session, counted from its records."""

from collections.abc import Mapping

from seer.rollout.events import (
    ChunkFinished,
    FinishGroup,
    FinishRequest,
    GroupsSubmitted,
    InstanceLeft,
)
from seer.rollout.fleet import Placed
from seer.rollout.metrics import MetricsBuilder
from seer.rollout.results import InstanceProgress, RolloutProgress
from seer.rollout.trace import TraceRecord

_TAIL_PARTS = 10
"""The tail is the last tenth of the requests to finish."""


class ProgressMeter:
    """Running counts of a session. Cheap: a few additions a record."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._tail_from: float | None = None
        self._num_groups = self._num_finished_groups = 0
        self._num_requests = self._num_finished = 0
        self._preemptions = self._lost = 0

    def add(self, record: TraceRecord) -> None:
        """Count a record."""
        match record.event:
            case GroupsSubmitted(groups=groups):
                self._started = record.t if self._started is None else self._started
                self._num_groups += len(groups)
                self._num_requests += sum(group.group_size for group in groups)
                self._tail_from = None
            case ChunkFinished(stats=stats):
                self._preemptions += stats.num_preemptions
            case InstanceLeft(on_purpose=on_purpose):
                self._lost += not on_purpose
        for action in record.actions:
            match action:
                case FinishRequest():
                    self._finish_request(record.t)
                case FinishGroup():
                    self._num_finished_groups += 1

    def snapshot(
        self,
        now: float,
        num_output_tokens: int,
        metrics: MetricsBuilder,
        placed: Mapping[int, Placed],
    ) -> RolloutProgress:
        """The session at time `now` of the records' clock."""
        return RolloutProgress(
            elapsed_s=0.0 if self._started is None else now - self._started,
            num_groups=self._num_groups,
            num_finished_groups=self._num_finished_groups,
            num_requests=self._num_requests,
            num_finished_requests=self._num_finished,
            num_output_tokens=num_output_tokens,
            tail_s=None if self._tail_from is None else now - self._tail_from,
            preemptions=self._preemptions,
            acceptance_length=metrics.drafts.acceptance_length,
            drafted_tokens=metrics.drafts.drafted,
            accepted_tokens=metrics.drafts.accepted,
            kv_bytes_moved=metrics.kv_bytes_moved,
            instances_lost=self._lost,
            instances=tuple(_instance(i, p) for i, p in placed.items()),
        )

    def _finish_request(self, t: float) -> None:
        self._num_finished += 1
        left = self._num_requests - self._num_finished
        if self._tail_from is None and left * _TAIL_PARTS <= self._num_requests:
            self._tail_from = t


def _instance(instance_id: int, placed: Placed) -> InstanceProgress:
    capacity = placed.kv_capacity_tokens
    return InstanceProgress(
        instance_id=instance_id,
        is_alive=placed.engine is not None,
        num_in_flight=len(placed.in_flight),
        used_kv_tokens=capacity - placed.load.free_kv_tokens if placed.load else 0,
        kv_capacity_tokens=capacity,
    )
