"""The rollout as a pure state machine: events in, actions out.

Decides which chunk runs where and what happens to its KV; owns the state of all requests. Two ways
of dispatching: a static policy deals whole requests to instances at once, and the engines queue
them; a divided policy starts chunks from the head of the request buffer as long as it fits
somewhere, and may pass over some that do not. Invariants: a request has at most one chunk in
flight, ends exactly once, and a group ends with its last member. In the divided modes no instance
is ever given more than its blocks hold.

An event costs O(log requests + instances) and whatever it starts; requests that wait far behind
the head are never looked at. A request that fits nowhere is not tried again on an instance where
nothing has changed. Events about chunks, groups and instances that are no longer there are
ignored: reports may cross with a loss or a cancellation.
"""

import msgspec

from seer.errors import InvalidInput
from seer.kvpool.pool_ledger import PoolLedger
from seer.rollout.controller_config import ControllerConfig, check_fits, check_group
from seer.rollout.events import (
    AbortChunk,
    Action,
    ChunkFinished,
    Event,
    FinishGroup,
    FinishRequest,
    GroupCancelled,
    GroupsSubmitted,
    InstanceJoined,
    InstanceLeft,
    KVExported,
    KVSpilled,
    LoadReported,
    StartChunk,
    Tick,
    TokensStreamed,
)
from seer.rollout.kv_moves import KVMoves
from seer.rollout.request_state import (
    Flight,
    GroupState,
    RequestState,
    RequestStatus,
    finish_reason,
    make_group,
)
from seer.scheduling.admission import can_admit, end_with_block
from seer.scheduling.divided_policies import Changed, DividedPolicy
from seer.scheduling.placement import Placement, PlacementConfig, place
from seer.scheduling.policies import make_policy
from seer.scheduling.request_buffer import RequestBuffer
from seer.scheduling.static_policies import StaticPolicy
from seer.types import FinishReason, GroupSpec, RequestId


class Controller:
    """One rollout. Equal events give equal actions.

    `static_policy` replaces the configured policy by one that is not known by name (a baseline of
    the simulator); a trace of such a rollout cannot be replayed.
    """

    def __init__(self, config: ControllerConfig, static_policy: StaticPolicy | None = None) -> None:
        self.config = config
        self._static: StaticPolicy | None = static_policy
        self._divided: DividedPolicy | None = None
        if static_policy is None:
            self._static, self._divided = make_policy(config.policy, config.chunk_size)
        self._end_game_placement = self._tighten(config.placement)
        self._kv = KVMoves(
            PoolLedger(config.num_host_slots, config.num_disk_slots, config.num_remote_slots),
            reserves=self._divided is not None,
        )
        self._groups: dict[int, GroupState] = {}
        self._buffer = RequestBuffer()
        self._refused: dict[RequestId, int] = {}
        """Requests that fitted nowhere in the last round, with the length of their chunk."""

    def _tighten(self, placement: PlacementConfig) -> PlacementConfig:
        most = self._divided.end_game_spread if self._divided is not None else None
        if most is None:
            return placement
        return msgspec.structs.replace(placement, max_spread=min(most, placement.max_spread))

    def handle(self, event: Event, now: float) -> list[Action]:
        """What to do about an event at time `now` (seconds, any origin, never decreasing).

        Raises InvalidInput, with nothing changed, for a group or an instance that cannot be taken:
        every request must fit on every instance, whichever of the two comes first.
        """
        del now  # no decision depends on the time yet; the trace records it
        match event:
            case GroupsSubmitted():
                return self._submit(event.groups)
            case GroupCancelled():
                return self._cancel(event.group_id)
            case InstanceJoined():
                return self._join(event)
            case InstanceLeft():
                actions = self._lose(event.instance_id)
                self._resize()
                return actions + self._dispatch()
            case TokensStreamed():
                self._stream(event)
            case ChunkFinished():
                return self._end_chunk(event) + ([] if event.more else self._dispatch())
            case KVExported():
                self._kv.end_export(event.instance_id, event.key, is_ok=event.ok)
            case KVSpilled():
                self._kv.end_spill(event.key, is_ok=event.ok)
            case LoadReported() | Tick():
                pass
        return []

    def check_integrity(self) -> None:
        """Raise AssertionError unless all state agrees. Not for the critical path."""
        self._kv.check_integrity()
        requests = [r for group in self._groups.values() for r in group.requests]
        waiting = [r for r in requests if r.status is RequestStatus.WAITING]
        assert len(waiting) == len(self._buffer), "buffer differs"  # noqa: S101
        assert all(r.request_id in self._buffer for r in waiting), "buffer differs"  # noqa: S101
        for request in requests:
            is_running = request.status is RequestStatus.RUNNING
            assert (request.flight is not None) == is_running, "flight differs"  # noqa: S101

    # ---------------------------------------------------------------- events

    def _submit(self, specs: tuple[GroupSpec, ...]) -> list[Action]:
        self._check_groups(specs)
        for spec in specs:
            group = make_group(spec)
            self._groups[spec.group_id] = group
            if self._divided is not None:
                self._divided.add_group(spec)
            for request in group.requests:
                self._wait(request)
        return self._dispatch()

    def _check_groups(self, specs: tuple[GroupSpec, ...]) -> None:
        seen = set(self._groups)
        infos = self._kv.infos
        for spec in specs:
            if spec.group_id in seen:
                raise InvalidInput("group_id", spec.group_id, "allowed: one that is not in use")
            seen.add(spec.group_id)
            check_group(spec, self.config)
            for info in infos:
                check_fits(spec, info)

    def _cancel(self, group_id: int) -> list[Action]:
        group = self._groups.get(group_id)
        if group is None or group.is_cancelled:
            return []
        group.is_cancelled = True
        actions: list[Action] = []
        for request in group.requests:
            if request.flight is not None:
                instance_id = request.flight.instance_id
                actions.append(AbortChunk(instance_id=instance_id, request_id=request.request_id))
            elif request.status is RequestStatus.WAITING:
                self._buffer.discard(request.request_id)
                actions += self._kv.discard(request.request_id)
                actions += self._finish(group, request, FinishReason.CANCELLED)
        return actions + self._dispatch()

    def _join(self, event: InstanceJoined) -> list[Action]:
        infos = self._kv.infos
        if infos and event.info.block_size != infos[0].block_size:
            allowed = f"allowed: {infos[0].block_size}, as on the other instances"
            raise InvalidInput("block_size", event.info.block_size, allowed)
        for group in self._groups.values():
            check_fits(group.spec, event.info)
        actions = self._lose(event.instance_id)  # a restart whose loss was not reported
        self._kv.join(event.instance_id, event.info)
        self._resize()
        return actions + self._dispatch()

    def _lose(self, instance_id: int) -> list[Action]:
        """Chunks of a lost instance go on elsewhere from the last reported token."""
        actions: list[Action] = []
        for request_id in self._kv.leave(instance_id):
            group = self._groups[request_id.group]
            request = group.requests[request_id.member]
            assert request.flight is not None  # noqa: S101 - the ledger says it runs
            flight = request.land(request.flight.num_streamed)
            self._kv.lose(flight)
            reason = finish_reason(group, request, None)
            if reason is None:
                self._progress(request)
                self._wait(request)
            else:
                actions += self._kv.discard(request_id)
                actions += self._finish(group, request, reason)
        return actions

    def _resize(self) -> None:
        """The policy may go by how much the instances hold."""
        if self._divided is not None:
            self._rekey(self._divided.resized(self._kv.num_tokens))

    def _stream(self, event: TokensStreamed) -> None:
        request = self._in_flight(event.request_id, event.chunk_index)
        if request is not None and request.flight is not None:
            request.flight.num_streamed += event.num_tokens
            self._kv.mark_ready(event.request_id, request.flight.instance_id)

    def _end_chunk(self, event: ChunkFinished) -> list[Action]:
        request = self._in_flight(event.request_id, event.chunk_index)
        if request is None:
            return []
        group = self._groups[event.request_id.group]
        flight = request.land(event.num_tokens)
        reason = finish_reason(group, request, event.end)
        if event.stats.num_load_failures:
            self._kv.distrust_prompt(event.request_id.group)
        actions = self._kv.settle(
            request, flight, event.end, num_tokens=event.num_tokens, stays=reason is None
        )
        if reason is None:
            self._progress(request)
            self._wait(request)
        else:
            actions += self._finish(group, request, reason)
        return actions

    # ---------------------------------------------------------------- dispatching

    def _dispatch(self) -> list[Action]:
        if not self._kv.instance_ids:
            return []
        if self._divided is not None:
            return self._start_what_fits(self._divided)
        assert self._static is not None  # noqa: S101 - one of the two is set
        return self._deal(self._static)

    def _start_what_fits(self, policy: DividedPolicy) -> list[Action]:
        """Start chunks in the policy's order, passing over at most `max_skips` that fit nowhere.

        # Paper silent: what follows a head that fits nowhere. Without skips the round ends
        (Algorithm 2 reports "no instance available"): nobody overtakes, so no head can starve.
        """
        actions: list[Action] = []
        passed: dict[RequestId, int] = {}
        touched = self._kv.take_touched()
        while (request_id := self._buffer.head()) is not None and len(passed) <= policy.max_skips:
            request = self._request(request_id)
            num_tokens = self._chunk_tokens(policy, request)
            placement = self._place(request, num_tokens, touched | self._kv.touched)
            if placement is None:
                self._buffer.set_aside()
                passed[request_id] = num_tokens
            else:
                actions += self._start(request, num_tokens, placement)
                self._rekey(policy.started(request_id))
        self._refused = passed
        self._buffer.restore()
        return actions

    def _chunk_tokens(self, policy: DividedPolicy, request: RequestState) -> int:
        left = request.max_tokens - request.num_generated
        num_tokens = policy.chunk_tokens(request)
        return end_with_block(num_tokens, request.num_covered, self._kv.block_size, left)

    def _place(self, request: RequestState, num_tokens: int, touched: set[int]) -> Placement | None:
        """Where the chunk goes; None: it fits nowhere. Untouched instances refuse it as before."""
        if self._refused.get(request.request_id) == num_tokens:
            views = self._kv.views(request, num_tokens, touched)
            if not any(can_admit(view) for view in views):
                return None
        is_end_game = len(self._buffer) == 1
        config = self._end_game_placement if is_end_game else self.config.placement
        return place(self._kv.views(request, num_tokens), config)

    def _deal(self, policy: StaticPolicy) -> list[Action]:
        """Give every waiting request, whole, to its instance."""
        request_ids = []
        while (request_id := self._buffer.pop()) is not None:
            request_ids.append(request_id)
        actions: list[Action] = []
        dealt = policy.deal(request_ids, self._kv.instance_ids)
        for request_id, instance_id in zip(request_ids, dealt, strict=True):
            request = self._request(request_id)
            num_tokens = request.max_tokens - request.num_generated
            placement = Placement(instance_id=instance_id, pull_from=None)
            actions += self._start(request, num_tokens, placement)
        return actions

    def _start(self, request: RequestState, num_tokens: int, placement: Placement) -> list[Action]:
        """Start a chunk; its KV stays on the instance unless it may be the last one."""
        self._buffer.discard(request.request_id)
        prepared = self._kv.prepare(request, num_tokens, placement, self._buffer.key)
        flight = Flight(
            chunk_index=request.num_chunks,
            instance_id=placement.instance_id,
            max_tokens=num_tokens,
            keep_kv=request.num_generated + num_tokens < request.max_tokens,
            loads=prepared.loads,
        )
        request.take_off(flight)
        start = StartChunk(
            instance_id=flight.instance_id,
            request_id=request.request_id,
            chunk_index=flight.chunk_index,
            max_tokens=flight.max_tokens,
            keep_kv=flight.keep_kv,
            loads=tuple(record.entry for record in flight.loads),
            is_probe=self._divided is not None and self._divided.is_probe(request),
            draft_weight=1.0 if self._divided is None else self._divided.draft_weight(request),
        )
        return [*prepared.actions, start]

    # ---------------------------------------------------------------- requests and groups

    def _wait(self, request: RequestState) -> None:
        request_id = request.request_id
        if self._divided is not None:
            self._buffer.add(request_id, self._divided.order_key(request))
        else:
            self._buffer.add(request_id, (request_id.group, request_id.member))

    def _progress(self, request: RequestState) -> None:
        """A request goes on: the policy may learn from its length."""
        if self._divided is not None:
            self._rekey(self._divided.progressed(request.request_id, request.num_generated))

    def _rekey(self, changed: Changed) -> None:
        """Give the waiting requests of these groups their new places."""
        for group_id in changed:
            for request in self._groups[group_id].requests:
                if request.request_id in self._buffer:
                    self._wait(request)

    def _finish(
        self, group: GroupState, request: RequestState, reason: FinishReason
    ) -> list[Action]:
        """End a request whose KV is gone already, and its group if it was the last member."""
        request.finish()
        group.num_unfinished -= 1
        if self._divided is not None and reason is not FinishReason.CANCELLED:
            self._rekey(self._divided.finished(request.request_id, request.num_generated))
        actions: list[Action] = [FinishRequest(request_id=request.request_id, reason=reason)]
        if group.num_unfinished == 0:
            group_id = group.spec.group_id
            actions += self._kv.discard_prompt(group_id)
            actions.append(FinishGroup(group_id=group_id))
            del self._groups[group_id]
            if self._divided is not None:
                self._rekey(self._divided.remove_group(group_id))
        return actions

    def _request(self, request_id: RequestId) -> RequestState:
        return self._groups[request_id.group].requests[request_id.member]

    def _in_flight(self, request_id: RequestId, chunk_index: int) -> RequestState | None:
        """The request, if that very chunk of it is in flight."""
        group = self._groups.get(request_id.group)
        if group is None:
            return None
        request = group.requests[request_id.member]
        is_current = request.flight is not None and request.flight.chunk_index == chunk_index
        return request if is_current else None
