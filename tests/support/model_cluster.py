"""Drives a controller over model instances in a random order of events.

Everything random comes from one seeded generator, so a run can be repeated. All checks are made
from the actions alone; the controller's own books are looked at only by its check_integrity.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

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
    GroupCancelled,
    GroupsSubmitted,
    InstanceJoined,
    InstanceLeft,
    KVExported,
    KVSpilled,
    SpillObject,
    StartChunk,
    TokensStreamed,
)
from seer.rollout.trace import TraceRecord
from seer.scheduling.policies import DIVIDED_POLICY_NAMES
from seer.types import (
    ChunkEnd,
    ChunkStats,
    GroupSpec,
    InstanceLoad,
    RequestId,
    Tier,
)
from support.model_instance import ModelChunk, ModelInstance
from support.model_pool import ModelPool, Place, spill_target
from support.scenario import Outcome, Scenario

LOAD = InstanceLoad(free_kv_tokens=0, num_running=0, num_waiting=0)


@dataclass
class _Report:
    """A copy that is done and not reported yet."""

    event: KVExported | KVSpilled
    places: list[Place]


def run(
    scenario: Scenario,
    *,
    check: bool = True,
    make_controller: Callable[[ControllerConfig], Controller] = Controller,
) -> Outcome:
    """Run a scenario to its end, checking on the way."""
    cluster = _Cluster(scenario, make_controller(scenario.config), check=check)
    cluster.run()
    return cluster.outcome


class _Cluster:
    def __init__(self, scenario: Scenario, controller: Controller, *, check: bool) -> None:
        self.outcome = Outcome()
        self._scenario = scenario
        self._check = check
        self._controller = controller
        self._random = random.Random(scenario.seed)
        self._pool = ModelPool()
        self._instances: dict[int, ModelInstance] = {}
        self._reports: list[_Report] = []
        self._ended: list[ChunkFinished] = []
        self._specs = {group.group_id: group for group in scenario.groups}
        self._submitted: set[int] = set()
        self._num_steps = 0

    def run(self) -> None:
        scenario = self._scenario
        early = len(scenario.groups) - scenario.late_groups
        joins = list(range(scenario.num_instances - scenario.late_instances))
        if self._random.random() < 0.5:
            self._submit(scenario.groups[:early])
            self._join_all(joins)
        else:
            self._join_all(joins)
            self._submit(scenario.groups[:early])
        if scenario.late_groups:
            self._steps(self._random.randrange(10))
            self._submit(scenario.groups[early:])
        self._steps(self._random.randrange(10))
        self._join_all(range(len(joins), scenario.num_instances))
        while len(self.outcome.finished_groups) < len(scenario.groups):
            self._step()
        while self._reports:
            self._report(self._reports[0])
        self._check_empty()

    def _check_empty(self) -> None:
        """Nothing is held for requests that are finished."""
        for instance in self._instances.values():
            assert not instance.prompts, "prompts outlive their groups"
            assert not instance.own, "KV outlives its request"
        config = self._scenario.config
        free = self._controller._kv._pool.num_free
        assert free == {
            Tier.HOST: config.num_host_slots,
            Tier.DISK: config.num_disk_slots,
            Tier.REMOTE: config.num_remote_slots,
        }

    def _submit(self, groups: tuple[GroupSpec, ...]) -> None:
        self._submitted |= {group.group_id for group in groups}
        self._handle(GroupsSubmitted(groups=groups))

    def _join_all(self, instance_ids: Iterable[int]) -> None:
        for instance_id in instance_ids:
            if instance_id not in self._instances:
                self._join(instance_id)

    def _steps(self, count: int) -> None:
        for _ in range(count):
            self._step()

    def _step(self) -> None:
        """One random event. Without anything in flight an instance must come back."""
        self._num_steps += 1
        assert self._num_steps < 20_000, "the rollout does not end"
        faults, chance = self._scenario.faults, self._random.random
        gone = [i for i in range(self._scenario.num_instances) if i not in self._instances]
        if chance() < faults.lose and self._instances:
            self._lose(self._random.choice(sorted(self._instances)))
        elif gone and (not self._instances or chance() < faults.join):
            self._join(self._random.choice(gone))
        elif chance() < faults.cancel:
            self._handle(GroupCancelled(group_id=self._random.choice(sorted(self._specs))))
        elif chance() < faults.stale and self._ended:
            self._handle(self._random.choice(self._ended))
        else:
            self._progress()

    def _progress(self) -> None:
        choices: list[Callable[[], None]] = []
        if self._reports:
            choices.append(self._report_copy)
        if any(instance.chunks for instance in self._instances.values()):
            choices += [self._stream, self._end_chunk, self._end_chunk]
        if choices:
            self._random.choice(choices)()

    def _pick(self) -> tuple[int, ModelChunk]:
        """A chunk in flight that has its KV: copies that it waits for are reported first."""
        flights = [(i, c) for i, inst in self._instances.items() for c in inst.chunks.values()]
        instance_id, chunk = self._random.choice(flights)
        places = {(e.tier, slot) for e in chunk.start.loads for slot in e.slots}
        for report in [r for r in self._reports if not places.isdisjoint(r.places)]:
            self._report(report)
        return instance_id, chunk

    def _join(self, instance_id: int) -> None:
        info = self._scenario.info
        enforces = self._scenario.config.policy in DIVIDED_POLICY_NAMES
        self._instances[instance_id] = ModelInstance(info=info, enforces=enforces)
        self._handle(InstanceJoined(instance_id=instance_id, info=info))

    def _lose(self, instance_id: int) -> None:
        instance = self._instances.pop(instance_id)
        for request_id, chunk in instance.chunks.items():
            self.outcome.num_generated[request_id] += chunk.num_streamed
            self._let_go_of_loads(chunk.start)
        lost = [r for r in self._reports if getattr(r.event, "instance_id", None) == instance_id]
        for report in lost:
            self._reports.remove(report)
            self._pool.let_go(report.places)
            if self._random.random() < 0.5:  # a driver may say so, or leave it at InstanceLeft
                self._handle(msgspec.structs.replace(report.event, ok=False))
        self._handle(InstanceLeft(instance_id=instance_id))

    def _report_copy(self) -> None:
        self._report(self._random.choice(self._reports))

    def _report(self, report: _Report) -> None:
        self._reports.remove(report)
        self._pool.let_go(report.places)
        self._handle(report.event)

    def _stream(self) -> None:
        instance_id, chunk = self._pick()
        left = self._left(chunk) - chunk.num_streamed - 1  # the last token comes with the result
        if chunk.is_aborted or left < 1:
            return
        count = self._random.randint(1, left)
        chunk.num_streamed += count
        start = chunk.start
        self._instances[instance_id].ready.add(start.request_id.group)
        self._handle(
            TokensStreamed(
                request_id=start.request_id, chunk_index=start.chunk_index, num_tokens=count
            )
        )

    def _end_chunk(self) -> None:
        instance_id, chunk = self._pick()
        request_id = chunk.start.request_id
        end, count = self._end_of(chunk)
        self.outcome.num_generated[request_id] += count
        self._let_go_of_loads(chunk.start)
        is_stopped = end is ChunkEnd.STOP
        self._instances[instance_id].end(request_id, count, is_stopped=is_stopped)
        event = ChunkFinished(
            request_id=request_id,
            chunk_index=chunk.start.chunk_index,
            instance_id=instance_id,
            num_tokens=count,
            end=end,
            stats=ChunkStats(),
            load=LOAD,
        )
        self._handle(event)
        self._ended.append(event)

    def _end_of(self, chunk: ModelChunk) -> tuple[ChunkEnd, int]:
        left = self._left(chunk)
        if chunk.is_aborted and self._random.random() < 0.8:
            return ChunkEnd.ABORTED, self._random.randint(chunk.num_streamed, left - 1)
        stops = chunk.num_generated + left >= self._scenario.lengths[chunk.start.request_id]
        return (ChunkEnd.STOP if stops else ChunkEnd.LENGTH), left

    def _left(self, chunk: ModelChunk) -> int:
        """Tokens that the chunk generates if nothing cuts it short."""
        own_end = self._scenario.lengths[chunk.start.request_id] - chunk.num_generated
        return max(1, min(chunk.start.max_tokens, own_end))

    def _let_go_of_loads(self, start: StartChunk) -> None:
        for entry in start.loads:
            self._pool.let_go([(entry.tier, slot) for slot in entry.slots])

    def _handle(self, event: Event) -> None:
        now = float(len(self.outcome.records))
        actions = self._controller.handle(event, now)
        if self._check:
            self._controller.check_integrity()
        self.outcome.records.append(TraceRecord(t=now, event=event, actions=actions))
        for action in actions:
            self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        match action:
            case StartChunk():
                self._start(action)
            case AbortChunk():
                self._instances[action.instance_id].chunks[action.request_id].is_aborted = True
            case ExportObject():
                self._export(action)
            case SpillObject():
                is_ok = self._random.random() >= self._scenario.faults.failed_copy
                self._pool.spill(action, is_ok=is_ok)
                event = KVSpilled(key=action.key, ok=is_ok, num_bytes=64)
                self._reports.append(_Report(event, spill_target(action)))
            case DropObject():
                self._instances[action.instance_id].drop(action.key)
            case FinishRequest():
                assert action.request_id not in self.outcome.finished, "finished twice"
                self.outcome.finished[action.request_id] = action.reason
            case FinishGroup():
                self._finish_group(action.group_id)

    def _start(self, start: StartChunk) -> None:
        request_id = start.request_id
        assert request_id not in self.outcome.finished
        flights = [r for instance in self._instances.values() for r in instance.chunks]
        assert request_id not in flights, "two chunks in flight"
        spec = self._specs[request_id.group]
        generated = self.outcome.num_generated.setdefault(request_id, 0)
        assert 1 <= start.max_tokens <= spec.max_tokens - generated
        chunk = ModelChunk(start, spec.num_prompt_tokens, generated)
        instance = self._instances[start.instance_id]
        before = instance.num_reprefilled
        instance.start(chunk, self._pool)
        self.outcome.num_reprefilled += instance.num_reprefilled - before
        computed = instance.num_prompts_computed.get(request_id.group, 0)
        self.outcome.max_prompts_computed = max(self.outcome.max_prompts_computed, computed)
        self.outcome.num_loads += len(start.loads)
        for entry in start.loads:
            self._pool.hold([(entry.tier, slot) for slot in entry.slots])

    def _export(self, action: ExportObject) -> None:
        instance = self._instances[action.instance_id]
        num_tokens = instance.exported_tokens(action.key)
        assert len(action.slots) == instance.num_blocks(action.key)
        is_ok = self._random.random() >= self._scenario.faults.failed_copy
        self._pool.export(action, num_tokens, is_ok=is_ok)
        self.outcome.num_exports += 1
        event = KVExported(instance_id=action.instance_id, key=action.key, ok=is_ok, num_bytes=64)
        self._reports.append(_Report(event, [(action.tier, slot) for slot in action.slots]))

    def _finish_group(self, group_id: int) -> None:
        size = self._specs[group_id].group_size
        assert group_id not in self.outcome.finished_groups
        members = [RequestId(group_id, member) for member in range(size)]
        assert all(member in self.outcome.finished for member in members)
        self.outcome.finished_groups.append(group_id)
