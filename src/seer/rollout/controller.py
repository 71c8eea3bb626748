"""The rollout as a pure state machine: events in, actions out.

Decides which chunk runs where and what happens to its KV; owns the state of all requests. Two ways
of dispatching: a static policy deals whole requests to instances at once, and the engines queue
them; a divided policy starts chunks from the head of the request buffer as long as the head fits
somewhere. Invariants: a request has at most one chunk in flight, ends exactly once, and a group
ends with its last member. In the divided modes no instance is ever given more than its blocks hold.

An event costs O(log requests + instances) and whatever it starts; requests that wait behind the
head are never looked at. Events about chunks, groups and instances that are no longer there are
ignored: reports may cross with a loss or a cancellation.
"""

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
from seer.scheduling.admission import chunk_tokens
from seer.scheduling.placement import Placement, place
from seer.scheduling.policies import Divided, StaticPolicy, make_policy
from seer.scheduling.request_buffer import RequestBuffer
from seer.types import FinishReason, GroupSpec, RequestId


class Controller:
    """One rollout. Equal events give equal actions."""

    def __init__(self, config: ControllerConfig) -> None:
        self.config = config
        self._policy = make_policy(config.policy)
        self._kv = KVMoves(
            PoolLedger(config.num_host_slots, config.num_disk_slots),
            reserves=isinstance(self._policy, Divided),
        )
        self._groups: dict[int, GroupState] = {}
        self._buffer = RequestBuffer()

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
                return self._lose(event.instance_id) + self._dispatch()
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
            check_group(spec)
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
                self._wait(request)
            else:
                actions += self._kv.discard(request_id)
                actions += self._finish(group, request, reason)
        return actions

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
            self._wait(request)
        else:
            actions += self._finish(group, request, reason)
        return actions

    # ---------------------------------------------------------------- dispatching

    def _dispatch(self) -> list[Action]:
        if not self._kv.instance_ids:
            return []
        match self._policy:
            case Divided():
                return self._start_while_head_fits()
            case static:
                return self._deal(static)

    def _start_while_head_fits(self) -> list[Action]:
        """Start chunks in the policy's order.

        # Paper silent: what follows a head that fits nowhere. The round ends (Algorithm 2 reports
        "no instance available"): nobody overtakes, so the head cannot starve.
        """
        actions: list[Action] = []
        while (request_id := self._buffer.head()) is not None:
            request = self._request(request_id)
            num_tokens = chunk_tokens(
                self.config.chunk_size, request.num_generated, request.max_tokens
            )
            placement = place(self._kv.views(request, num_tokens), self.config.placement)
            if placement is None:
                break
            actions += self._start(request, num_tokens, placement)
        return actions

    def _deal(self, policy: StaticPolicy) -> list[Action]:
        """Give every waiting request, whole, to its instance."""
        request_ids = []
        while (request_id := self._buffer.pop()) is not None:
            request_ids.append(request_id)
        actions: list[Action] = []
        dealt = policy.deal(request_ids, self._kv.instance_ids)
        for request_id, instance_id in zip(request_ids, dealt, strict=True):
            request = self._request(request_id)
            num_tokens = chunk_tokens(None, request.num_generated, request.max_tokens)
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
        )
        return [*prepared.actions, start]

    # ---------------------------------------------------------------- requests and groups

    def _wait(self, request: RequestState) -> None:
        request_id = request.request_id
        match self._policy:
            case Divided() as policy:
                self._buffer.add(request_id, policy.order_key(request_id))
            case _:
                self._buffer.add(request_id, (request_id.group, request_id.member))

    def _finish(
        self, group: GroupState, request: RequestState, reason: FinishReason
    ) -> list[Action]:
        """End a request whose KV is gone already, and its group if it was the last member."""
        request.finish()
        group.num_unfinished -= 1
        actions: list[Action] = [FinishRequest(request_id=request.request_id, reason=reason)]
        if group.num_unfinished == 0:
            group_id = group.spec.group_id
            actions += self._kv.discard_prompt(group_id)
            actions.append(FinishGroup(group_id=group_id))
            del self._groups[group_id]
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
