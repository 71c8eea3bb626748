"""A rollout in virtual time: the real controller over simulated instances.

The same events, actions and trace as with real engines; an event queue takes the place of the
asyncio driver. A copy of KV takes its bytes over a bandwidth, one after the other on each instance
and direction; a chunk starts when its KV has come.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from seer.rollout.controller import Controller
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import (
    AbortChunk,
    Action,
    ChunkFinished,
    DropObject,
    Event,
    ExportObject,
    FinishGroup,
    FinishRequest,
    GroupsSubmitted,
    InstanceJoined,
    InstanceLeft,
    KVExported,
    KVSpilled,
    SpillObject,
    StartChunk,
    TokensStreamed,
)
from seer.rollout.metrics import MetricsBuilder, RolloutMetrics
from seer.rollout.trace import TraceRecord
from seer.scheduling.policies import DIVIDED_POLICY_NAMES
from seer.scheduling.static_policies import StaticPolicy
from seer.simulator.cluster import Cluster
from seer.simulator.instance import SimulatedChunk, SimulatedInstance
from seer.simulator.speculation import Acceptance, Speculation
from seer.simulator.workload import Workload
from seer.types import ChunkEnd, ChunkStats, RequestId, Tier

OnRecord = Callable[[TraceRecord], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An instance leaves or comes back at a time."""

    time_s: float
    instance_id: int
    kind: Literal["leave", "join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """What a simulated rollout came to."""

    metrics: RolloutMetrics
    finish_s: dict[RequestId, float]
    last_busy_s: dict[int, float]
    """When each instance ended its last chunk; 0: it was given none."""
    generated: dict[RequestId, int]
    """Output tokens of each request that has begun."""

    @property
    def idle_share(self) -> float:
        """Of the total time, after an instance's last chunk, averaged over instances."""
        last = self.last_busy_s.values()
        return 1 - sum(last) / len(last) / self.metrics.total_time_s

    @property
    def finish_gap_share(self) -> float:
        """Between the first and the last instance to finish, of the total time."""
        last = self.last_busy_s.values()
        return (max(last) - min(last)) / self.metrics.total_time_s


@dataclass(slots=True)
class _Channel:
    """Copies between one instance and the pool, in one direction."""

    free_at: float = 0.0

    def send(self, now: float, seconds: float) -> float:
        """Begin a copy when earlier ones are done; returns when it ends."""
        self.free_at = max(self.free_at, now) + seconds
        return self.free_at


@dataclass(slots=True)
class _Links:
    """What leads to and from one instance."""

    out: _Channel = field(default_factory=_Channel)
    into: _Channel = field(default_factory=_Channel)
    held_until: float = 0.0

    def begin(self, *not_before: float) -> float:
        """When the next action begins: never before an earlier one, as the driver has it."""
        self.held_until = max(self.held_until, *not_before)
        return self.held_until


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A chunk's KV has come."""

    chunk: SimulatedChunk
    loaded_tokens: int
    stall_s: float = 0.0
    """Time that its instance takes to copy the KV, where it makes no steps meanwhile."""


@dataclass(frozen=True, slots=True)
class _Wake:
    """An instance said that something happens now, if it is still at this version."""

    instance_id: int
    version: int


class Simulation:
    """One rollout. Equal arguments give equal records."""

    def __init__(
        self,
        cluster: Cluster,
        workload: Workload,
        config: ControllerConfig,
        *,
        acceptance: Acceptance | None = None,
        static_policy: StaticPolicy | None = None,
        max_running: dict[int, int] | None = None,
        faults: Sequence[Fault] = (),
        stop_after_groups: int | None = None,
        on_record: OnRecord | None = None,
    ) -> None:
        cluster.check_holds(workload)
        self._cluster = cluster
        self._workload = workload
        self._controller = Controller(config, static_policy)
        self._reserves = static_policy is None and config.policy in DIVIDED_POLICY_NAMES
        self._speculation = Speculation(acceptance, cluster.step_time) if acceptance else None
        self._max_running = max_running or {}
        self._on_record = on_record
        self._info = cluster.info(workload.max_context_tokens)
        self._instances: dict[int, SimulatedInstance] = {}
        self._links: dict[int, _Links] = {}
        self._disk = _Channel()
        self._ready: dict[tuple[Tier, int], float] = {}
        """When the pool entry that begins at a slot has been written."""
        self._events: list[tuple[float, int, Event | _Arrival | _Wake | Fault]] = []
        self._serial = 0
        self._now = 0.0
        self._metrics = MetricsBuilder()
        self._generated: Counter[RequestId] = Counter()
        self._finished_members: Counter[int] = Counter()
        self._where: dict[RequestId, int] = {}
        self._last_end: dict[RequestId, tuple[float, int]] = {}
        """When and on which instance each request's last chunk ended."""
        self._finish_s: dict[RequestId, float] = {}
        self._last_busy_s = dict.fromkeys(range(cluster.num_instances), 0.0)
        self._num_unfinished = min(len(workload.groups), stop_after_groups or len(workload.groups))
        for fault in faults:
            self._push(fault.time_s, fault)

    def run(self) -> SimulationResult:
        """The whole rollout; with `stop_after_groups` until so many groups are finished."""
        for instance_id in range(self._cluster.num_instances):
            self._join(instance_id)
        self._handle(GroupsSubmitted(groups=self._workload.groups))
        while self._num_unfinished:
            self._now, _, item = heapq.heappop(self._events)
            match item:
                case _Wake():
                    self._wake(item)
                case _Arrival():
                    self._arrive(item)
                case Fault(kind="join"):
                    self._join(item.instance_id)
                case Fault():
                    self._leave(item.instance_id)
                case event:
                    self._handle(event)
        return SimulationResult(
            metrics=self._metrics.result(),
            finish_s=self._finish_s,
            last_busy_s=self._last_busy_s,
            generated=self._progress(),
        )

    def _progress(self) -> dict[RequestId, int]:
        generated = dict(self._generated)
        for instance in self._instances.values():
            instance.batch.advance(self._now)
            for request_id, num_tokens in instance.progress().items():
                generated[request_id] = generated.get(request_id, 0) + num_tokens
        return generated

    # ---------------------------------------------------------------- events

    def _push(self, time: float, item: Event | _Arrival | _Wake | Fault) -> None:
        self._serial += 1
        heapq.heappush(self._events, (time, self._serial, item))

    def _handle(self, event: Event) -> None:
        actions = self._controller.handle(event, self._now)
        record = TraceRecord(t=self._now, event=event, actions=actions)
        self._metrics.add(record)
        if self._on_record is not None:
            self._on_record(record)
        for action in actions:
            self._carry_out(action)

    def _join(self, instance_id: int) -> None:
        info = self._info
        if instance_id in self._max_running:
            limit = self._max_running[instance_id]
            info = self._cluster.info(info.max_context_tokens, max_running=limit)
        self._instances[instance_id] = SimulatedInstance(
            instance_id,
            info,
            self._workload,
            self._cluster.step_time,
            self._speculation,
            reserves=self._reserves,
            slowdown=self._cluster.slowdown.get(instance_id, 1.0),
        )
        self._instances[instance_id].batch.advance(self._now)
        self._links[instance_id] = _Links()
        self._handle(InstanceJoined(instance_id=instance_id, info=info))

    def _leave(self, instance_id: int) -> None:
        """An instance is lost; what its chunks have generated is kept, as if streamed."""
        instance = self._instances.pop(instance_id, None)
        if instance is None:
            return
        instance.batch.advance(self._now)
        for request_id, num_tokens in instance.progress().items():
            index = instance.chunks[request_id].start.chunk_index
            del self._where[request_id]
            if num_tokens:
                self._generated[request_id] += num_tokens
                self._handle(
                    TokensStreamed(request_id=request_id, chunk_index=index, num_tokens=num_tokens)
                )
        self._handle(InstanceLeft(instance_id=instance_id))

    def _wake(self, wake: _Wake) -> None:
        instance = self._instances.get(wake.instance_id)
        if instance is None or instance.version != wake.version:
            return
        for event in instance.settle(self._now):
            self._end(event)
        instance.admit(self._siblings(instance))
        self._schedule(instance)

    def _end(self, event: ChunkFinished) -> None:
        self._generated[event.request_id] += event.num_tokens
        del self._where[event.request_id]
        self._last_end[event.request_id] = (self._now, event.instance_id)
        self._last_busy_s[event.instance_id] = self._now
        self._handle(event)

    def _arrive(self, arrival: _Arrival) -> None:
        start = arrival.chunk.start
        instance = self._instances.get(start.instance_id)
        if instance is None or self._where.get(start.request_id) != start.instance_id:
            return
        instance.batch.advance(self._now)
        if self._cluster.takes_between_steps:
            time = instance.batch.next_step()
            if time > self._now:
                self._push(time, arrival)
                return
            instance.batch.stall(arrival.stall_s)
        siblings = self._finished_members[start.request_id.group]
        instance.accept(arrival.chunk, arrival.loaded_tokens, siblings)
        self._schedule(instance)

    def _schedule(self, instance: SimulatedInstance) -> None:
        """Announce what happens next on an instance."""
        time = instance.next_event()
        if time is not None:
            self._push(time, _Wake(instance.instance_id, instance.version))

    # ---------------------------------------------------------------- actions

    def _carry_out(self, action: Action) -> None:
        match action:
            case StartChunk():
                self._start(action)
            case ExportObject():
                self._export(action)
            case SpillObject():
                self._spill(action)
            case DropObject():
                self._instances[action.instance_id].drop(action.key)
            case FinishRequest():
                self._finish(action.request_id)
            case FinishGroup():
                self._num_unfinished -= 1
            case AbortChunk():
                raise AssertionError("nothing is cancelled in a simulation")

    def _start(self, start: StartChunk) -> None:
        request_id = start.request_id
        self._where[request_id] = start.instance_id
        before = self._generated[request_id]
        left = self._workload.length(request_id) - before
        num_slots = sum(len(entry.slots) for entry in start.loads)
        chunk = SimulatedChunk(
            start=start,
            num_prompt=self._workload.num_prompt_tokens(request_id.group),
            num_before=before,
            num_tokens=min(start.max_tokens, left),
            end=ChunkEnd.STOP if left <= start.max_tokens else ChunkEnd.LENGTH,
            stats=ChunkStats(num_loaded_bytes=num_slots * self._info.block_bytes),
        )
        if self._goes_on(start):
            self._arrive(_Arrival(chunk, 0))
            return
        loaded_tokens = max((entry.num_tokens for entry in start.loads), default=0)
        seconds = sum(self._copy_s(entry.tier, len(entry.slots)) for entry in start.loads)
        links = self._links[start.instance_id]
        ready = [self._ready.get((each.tier, each.slots[0]), 0.0) for each in start.loads]
        begin = links.begin(self._now, *ready) + self._cluster.handover_s
        if self._cluster.takes_between_steps:
            self._push(begin, _Arrival(chunk, loaded_tokens, seconds))
        elif not start.loads and begin == self._now:
            self._arrive(_Arrival(chunk, loaded_tokens))
        else:
            time = links.into.send(begin, seconds) if start.loads else begin
            self._push(time, _Arrival(chunk, loaded_tokens))

    def _goes_on(self, start: StartChunk) -> bool:
        """Whether an engine that takes chunks between steps has not let go of the request."""
        is_back_at_once = self._last_end.get(start.request_id) == (self._now, start.instance_id)
        return self._cluster.takes_between_steps and is_back_at_once and not start.loads

    def _export(self, export: ExportObject) -> None:
        seconds = self._copy_s(Tier.HOST, len(export.slots))
        links = self._links[export.instance_id]
        begin = links.begin(self._now)
        if self._cluster.takes_between_steps:
            begin = max(begin, self._stall_for_copy(export.instance_id, seconds))
        done = links.out.send(begin, seconds)
        self._ready[Tier.HOST, export.slots[0]] = done
        num_bytes = len(export.slots) * self._info.block_bytes
        event = KVExported(
            instance_id=export.instance_id, key=export.key, ok=True, num_bytes=num_bytes
        )
        self._push(done, event)

    def _stall_for_copy(self, instance_id: int, seconds: float) -> float:
        """An instance copies before its next step; returns when it begins to."""
        instance = self._instances[instance_id]
        instance.batch.advance(self._now)
        begin = instance.batch.next_step()
        instance.batch.stall(seconds)
        instance.version += 1
        self._schedule(instance)
        return begin

    def _spill(self, spill: SpillObject) -> None:
        seconds = self._copy_s(Tier.DISK, len(spill.disk_slots))
        done = self._disk.send(self._now, seconds)
        self._ready[Tier.DISK, spill.disk_slots[0]] = done
        num_bytes = len(spill.disk_slots) * self._info.block_bytes
        self._push(done, KVSpilled(key=spill.key, ok=True, num_bytes=num_bytes))

    def _copy_s(self, tier: Tier, num_slots: int) -> float:
        bandwidth = self._cluster.transfer_bytes_per_s
        if tier is Tier.DISK:
            bandwidth = min(bandwidth, self._cluster.disk_bytes_per_s)
        return num_slots * self._info.block_bytes / bandwidth

    def _finish(self, request_id: RequestId) -> None:
        """A sibling more is known to the members that still run."""
        self._finish_s[request_id] = self._now
        group = request_id.group
        self._finished_members[group] += 1
        if self._speculation is None:
            return
        count = self._finished_members[group]
        size = len(self._workload.group(group).known_lengths)
        for member in range(size):
            sibling = RequestId(group, member)
            instance = self._instances.get(self._where.get(sibling, -1))
            if instance is not None and sibling in instance.batch:
                instance.batch.advance(self._now)
                instance.batch.set_siblings(sibling, count)
                instance.version += 1
                self._schedule(instance)

    def _siblings(self, instance: SimulatedInstance) -> dict[RequestId, int]:
        """Finished siblings of what queues on an instance."""
        if self._speculation is None or self._reserves:
            return {}
        return {r: self._finished_members[r.group] for r in instance.chunks}
