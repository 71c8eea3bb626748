"""Makes a `Timeline` of the records of a trace in one pass.

Reports about chunks that are no longer in flight are ignored, as the controller does.
"""

import math
from array import array
from dataclasses import dataclass

import numpy as np

from seer.report.chunk_table import ChunkColumns, Fate
from seer.report.instance_log import InstanceLog
from seer.report.rounds import Rounds, shifted
from seer.report.timeline import Requests, Submission, Timeline
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import (
    ChunkFinished,
    DropObject,
    Event,
    FinishGroup,
    FinishRequest,
    GroupsSubmitted,
    InstanceJoined,
    InstanceLeft,
    LoadReported,
    StartChunk,
    TokensStreamed,
)
from seer.rollout.metrics import MetricsBuilder
from seer.rollout.trace import TraceRecord
from seer.scheduling.policies import STATIC_POLICY_NAMES
from seer.simulator.cluster import SIMULATED_MODEL
from seer.types import ChunkEnd, FinishReason, GroupSpec, RequestId


@dataclass(slots=True)
class _Flight:
    """A chunk in flight."""

    start: StartChunk
    t: float
    num_streamed: int = 0


class TimelineBuilder:
    """Takes in the records of a trace one by one."""

    def __init__(self, config: ControllerConfig) -> None:
        self._policy = config.policy
        self._is_static = config.policy in STATIC_POLICY_NAMES
        self._is_simulated = False
        self._metrics = MetricsBuilder()
        self._rounds = Rounds()
        self._logs: dict[int, InstanceLog] = {}
        self._flights: dict[RequestId, _Flight] = {}
        self._submissions: list[Submission] = []
        self._by_group: dict[int, Submission] = {}
        self._groups, self._members = array("q"), array("q")
        self._lengths, self._finish_s = array("q"), array("d")
        self._cancelled = array("b")
        self._chunks = ChunkColumns()
        self._losses: list[tuple[float, int]] = []
        self._now = 0.0

    def add(self, record: TraceRecord) -> None:
        """Take in the next record."""
        self._metrics.add(record)
        self._now = record.t
        self._take_event(record.event)
        for action in record.actions:
            match action:
                case StartChunk():
                    self._start(action)
                case DropObject():
                    self._logs[action.instance_id].held.drop(self._now, action.key)
                case FinishRequest():
                    self._finish(action)
                case FinishGroup():
                    self._rounds.finish_group(self._now, action.group_id)

    @property
    def has_groups(self) -> bool:
        """Whether any group was submitted."""
        return bool(self._submissions)

    def result(self) -> Timeline:
        """The timeline of the records so far; there must be groups in them."""
        rounds = [*self._rounds.done, *self._rounds.under_way(self._now)]
        origin = rounds[0].start_s
        self._close_open_chunks()
        return Timeline(
            policy=self._policy,
            is_simulated=self._is_simulated,
            is_static=self._is_static,
            metrics=self._metrics.result(),
            instances=tuple(log.line(origin) for _, log in sorted(self._logs.items())),
            chunks=self._chunks.table(origin),
            requests=self._requests(origin),
            submissions=tuple(self._submissions),
            rounds=tuple(shifted(each, origin) for each in rounds),
            end_s=rounds[-1].end_s - origin,
            losses=tuple((max(0.0, t - origin), i) for t, i in self._losses),
        )

    def _take_event(self, event: Event) -> None:
        match event:
            case GroupsSubmitted():
                self._submit(event.groups)
            case InstanceJoined():
                self._join(event)
            case InstanceLeft():
                self._losses.append((self._now, event.instance_id))
                self._lose(event.instance_id)
            case TokensStreamed():
                flight = self._in_flight(event)
                if flight is not None:
                    flight.num_streamed += event.num_tokens
            case ChunkFinished():
                self._end_chunk(event)
            case LoadReported():
                if event.instance_id in self._logs:
                    self._logs[event.instance_id].report(self._now, event.load)

    def _submit(self, groups: tuple[GroupSpec, ...]) -> None:
        self._rounds.submit(self._now, groups)
        for spec in groups:
            submission = Submission(
                spec=spec,
                first_request=len(self._groups),
                num_chunks_before=len(self._chunks),
            )
            self._submissions.append(submission)
            self._by_group[spec.group_id] = submission
            size = spec.group_size
            self._groups.extend([spec.group_id] * size)
            self._members.extend(range(size))
            self._lengths.extend([0] * size)
            self._finish_s.extend([math.nan] * size)
            self._cancelled.extend([0] * size)

    def _join(self, event: InstanceJoined) -> None:
        instance_id = event.instance_id
        self._is_simulated |= event.info.model == SIMULATED_MODEL
        if instance_id in self._logs:
            self._lose(instance_id)  # a restart whose loss was not reported
        else:
            self._logs[instance_id] = InstanceLog(
                instance_id, event.info, is_static=self._is_static
            )
        self._logs[instance_id].join(self._now)

    def _start(self, action: StartChunk) -> None:
        request_id = action.request_id
        log = self._logs[action.instance_id]
        spec = self._by_group[request_id.group].spec
        num_generated = self._lengths[self._row(request_id)]
        self._flights[request_id] = _Flight(action, self._now)
        log.held.start(self._now, request_id, spec.num_prompt_tokens, num_generated)
        log.take_off(self._now)

    def _end_chunk(self, event: ChunkFinished) -> None:
        flight = self._in_flight(event)
        if flight is None:
            return
        is_loaded = event.stats.num_loaded_tokens > 0
        log = self._land(flight, event.num_tokens, Fate.ENDED, is_loaded=is_loaded)
        log.report(self._now, event.load)
        if not flight.start.keep_kv or event.end is ChunkEnd.STOP:
            log.held.drop(self._now, event.request_id.kv_key)

    def _lose(self, instance_id: int) -> None:
        for flight in list(self._flights.values()):
            if flight.start.instance_id == instance_id:
                self._land(flight, flight.num_streamed, Fate.LOST)
        self._logs[instance_id].leave(self._now)

    def _close_open_chunks(self) -> None:
        for flight in list(self._flights.values()):
            self._land(flight, flight.num_streamed, Fate.OPEN)

    def _land(
        self, flight: _Flight, num_tokens: int, fate: Fate, *, is_loaded: bool = False
    ) -> InstanceLog:
        """A chunk is over; returns the log of its instance."""
        request_id, instance_id = flight.start.request_id, flight.start.instance_id
        row = self._row(request_id)
        del self._flights[request_id]
        self._lengths[row] += num_tokens
        self._chunks.add(row, instance_id, flight.t, self._now, num_tokens, is_loaded, fate)
        log = self._logs[instance_id]
        log.held.grow(flight.t, self._now, request_id, num_tokens)
        log.land(self._now)
        return log

    def _finish(self, action: FinishRequest) -> None:
        row = self._row(action.request_id)
        self._rounds.finish(self._now)
        self._finish_s[row] = self._now
        self._cancelled[row] = action.reason is FinishReason.CANCELLED
        self._chunks.mark_last(row, self._now)

    def _requests(self, origin: float) -> Requests:
        return Requests(
            group=np.array(self._groups),
            member=np.array(self._members),
            num_tokens=np.array(self._lengths),
            finish_s=np.array(self._finish_s) - origin,
            is_cancelled=np.array(self._cancelled, dtype=np.bool_),
        )

    def _row(self, request_id: RequestId) -> int:
        return self._by_group[request_id.group].first_request + request_id.member

    def _in_flight(self, report: ChunkFinished | TokensStreamed) -> _Flight | None:
        flight = self._flights.get(report.request_id)
        is_current = flight is not None and flight.start.chunk_index == report.chunk_index
        return flight if is_current else None
