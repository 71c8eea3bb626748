"""Where the KV of every request is, and the actions that bring it where it is needed.

Owns the ledgers of all instances and of the pool. A waiting request's own KV is in one place: at
rest on its home instance, in the pool, or nowhere (then it is computed again). Actions on one
instance are carried out in the order given here, so the ledgers are changed at once.

When a chunk needs blocks, idle KV leaves the instance (order: `kvpool/eviction.py`): it is exported
to the pool and dropped, or dropped alone when the pool has it already or has no room.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from seer.kvpool.blocks import EMPTY, Footprint, footprint, own_blocks
from seer.kvpool.eviction import eviction_order
from seer.kvpool.instance_ledger import InstanceLedger
from seer.kvpool.pool_ledger import PoolLedger, PoolRecord, Spill
from seer.rollout.events import Action, DropObject, ExportObject, SpillObject
from seer.rollout.request_state import Flight, RequestState
from seer.scheduling.placement import Placement
from seer.scheduling.request_buffer import OrderKey
from seer.types import ChunkEnd, EngineInfo, InstanceView, KVKey, RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a chunk needs before it starts."""

    actions: list[Action]
    loads: tuple[PoolRecord, ...]
    """Pool entries to read, pinned for the chunk."""


@dataclass(slots=True)
class _Instance:
    info: EngineInfo
    ledger: InstanceLedger


class KVMoves:
    """KV of all requests. `reserves` is False where engines manage their blocks alone."""

    def __init__(self, pool: PoolLedger, *, reserves: bool) -> None:
        self._pool = pool
        self._reserves = reserves
        self._instances: dict[int, _Instance] = {}
        self._homes: dict[RequestId, int] = {}
        self._exporting: dict[tuple[int, KVKey], PoolRecord] = {}
        self.touched: set[int] = set()
        """Instances whose blocks have changed hands since `take_touched`."""

    @property
    def instance_ids(self) -> list[int]:
        """Instances that are up, ascending."""
        return list(self._instances)

    @property
    def infos(self) -> list[EngineInfo]:
        """What the instances that are up can hold, each kind once."""
        return list(dict.fromkeys(instance.info for instance in self._instances.values()))

    @property
    def num_tokens(self) -> int:
        """Tokens whose KV all instances that are up can hold."""
        return sum(instance.info.kv_capacity_tokens for instance in self._instances.values())

    def take_touched(self) -> set[int]:
        """Instances whose blocks have changed hands since the last call."""
        touched, self.touched = self.touched, set()
        return touched

    def join(self, instance_id: int, info: EngineInfo) -> None:
        """An instance is up and holds nothing."""
        self._instances[instance_id] = _Instance(info, InstanceLedger(info.num_blocks))
        self._instances = dict(sorted(self._instances.items()))
        self.touched.add(instance_id)

    def leave(self, instance_id: int) -> list[RequestId]:
        """An instance and its KV are gone; returns the requests whose chunks were in flight there.

        Its exports that are pending count as failed.
        """
        instance = self._instances.pop(instance_id, None)
        if instance is None:
            return []
        for request_id in instance.ledger.resting_requests():
            del self._homes[request_id]
        for exporter, key in list(self._exporting):
            if exporter == instance_id:
                self.end_export(instance_id, key, is_ok=False)
        return list(instance.ledger.running_requests())

    def views(
        self, request: RequestState, num_tokens: int, among: Collection[int] | None = None
    ) -> list[InstanceView]:
        """The instances as placement sees them for a chunk of `num_tokens`, by ascending id.

        `among`: only these.
        """
        request_id = request.request_id
        needed = self._footprint(request, num_tokens)
        return [
            InstanceView(
                instance_id=instance_id,
                num_in_flight=instance.ledger.num_running,
                free_blocks=instance.ledger.free_blocks,
                reclaimable_blocks=instance.ledger.reclaimable_blocks(request_id),
                needed_blocks=instance.ledger.needed_blocks(request_id, needed),
                cached_tokens=instance.ledger.cached_tokens(request_id),
                has_slot=instance.ledger.num_running < instance.info.max_running_requests,
            )
            for instance_id, instance in self._instances.items()
            if among is None or instance_id in among
        ]

    def prepare(
        self,
        request: RequestState,
        num_tokens: int,
        placement: Placement,
        order_key: Callable[[RequestId], OrderKey],
    ) -> Prepared:
        """Bring a chunk's KV together and reserve its blocks, which must fit.

        `order_key` gives the place of a waiting request; the greatest loses its blocks first.
        """
        request_id = request.request_id
        instance = self._instances[placement.instance_id]
        actions: list[Action] = []
        loads = self._pin_loads(request_id, placement, actions)
        home = self._homes.pop(request_id, None)
        if home is not None and home != placement.instance_id:
            self._instances[home].ledger.drop_request(request_id)
            self.touched.add(home)
            actions.append(DropObject(instance_id=home, key=request_id.kv_key))
        self.touched.add(placement.instance_id)
        needed = self._footprint(request, num_tokens)
        self._reclaim(placement.instance_id, request_id, needed, order_key, actions)
        instance.ledger.start(request_id, needed, request.num_prompt_tokens)
        return Prepared(actions=actions, loads=loads)

    def mark_ready(self, request_id: RequestId, instance_id: int) -> None:
        """A chunk in flight has generated: the prompt on its instance is computed."""
        self._instances[instance_id].ledger.mark_ready(request_id.group)

    def settle(
        self, request: RequestState, flight: Flight, end: ChunkEnd, *, num_tokens: int, stays: bool
    ) -> list[Action]:
        """A chunk has ended with `num_tokens` generated; `stays` says whether its request goes on.

        A chunk that was cut before its first token may not have taken its KV from the pool, nor
        have it whole: the instance's copy is dropped, the pool's stays.
        """
        request_id = request.request_id
        instance = self._instances[flight.instance_id]
        self.touched.add(flight.instance_id)
        self._unpin(flight)
        was_kept = flight.keep_kv and end is not ChunkEnd.STOP
        if num_tokens or not stays:
            self._release(request_id.kv_key)
        if num_tokens:
            instance.ledger.mark_ready(request_id.group)
        if was_kept and stays and num_tokens:
            num_covered = request.num_covered
            blocks = own_blocks(request.num_prompt_tokens, num_covered, self.block_size)
            instance.ledger.rest(request_id, num_covered, blocks)
            self._homes[request_id] = flight.instance_id
            return []
        instance.ledger.drop_request(request_id)
        if not was_kept:
            return []
        return [DropObject(instance_id=flight.instance_id, key=request_id.kv_key)]

    def lose(self, flight: Flight) -> None:
        """A chunk was lost with its instance; pool entries stay for the next attempt."""
        self._unpin(flight)

    def distrust_prompt(self, group: int) -> None:
        """A load has failed: forget the pool's copy of the prompt, which may be the broken one."""
        self._release(KVKey(group))

    def discard(self, request_id: RequestId) -> list[Action]:
        """A waiting request is no longer wanted."""
        self._release(request_id.kv_key)
        home = self._homes.pop(request_id, None)
        if home is None:
            return []
        self._instances[home].ledger.drop_request(request_id)
        self.touched.add(home)
        return [DropObject(instance_id=home, key=request_id.kv_key)]

    def discard_prompt(self, group: int) -> list[Action]:
        """All members of a group are finished."""
        key = KVKey(group)
        self._release(key)
        holders = [i for i in self.instance_ids if self._instances[i].ledger.prompt(group)]
        for instance_id in holders:
            self._instances[instance_id].ledger.drop_prompt(group)
        self.touched.update(holders)
        return [DropObject(instance_id=instance_id, key=key) for instance_id in holders]

    def end_export(self, instance_id: int, key: KVKey, *, is_ok: bool) -> None:
        """An export is done; a failed one leaves no entry. Unknown ones are ignored."""
        record = self._exporting.pop((instance_id, key), None)
        if record is None:
            return
        if not is_ok:
            self._pool.remove(record)
        self._pool.unpin(record)

    def end_spill(self, key: KVKey, *, is_ok: bool) -> None:
        """A spill is done."""
        self._pool.end_spill(key, is_ok=is_ok)

    def check_integrity(self) -> None:
        """Raise AssertionError unless the ledgers agree with themselves and with each other."""
        homes = {}
        for instance_id, instance in self._instances.items():
            instance.ledger.check_integrity()
            homes.update(dict.fromkeys(instance.ledger.resting_requests(), instance_id))
        assert homes == self._homes, "homes differ"  # noqa: S101
        self._pool.check_integrity()

    @property
    def block_size(self) -> int:
        """Tokens a block, the same on all instances; there is one at least."""
        return next(iter(self._instances.values())).info.block_size

    def _footprint(self, request: RequestState, num_tokens: int) -> Footprint:
        if not self._reserves:
            return EMPTY
        return footprint(
            request.num_prompt_tokens, request.num_generated, num_tokens, self.block_size
        )

    def _pin_loads(
        self, request_id: RequestId, placement: Placement, actions: list[Action]
    ) -> tuple[PoolRecord, ...]:
        """Pool entries of what the instance lacks; what is pulled is exported first.

        Entries that exist are pinned before an export may evict them.
        """
        ledger = self._instances[placement.instance_id].ledger
        missing = [KVKey(request_id.group)] if ledger.prompt(request_id.group) is None else []
        if ledger.request(request_id) is None:
            missing.append(request_id.kv_key)
        found = [record for key in missing if (record := self._pool.find(key)) is not None]
        for record in found:
            self._pool.pin(record)
        if placement.pull_from is not None:
            for key in missing:
                if self._pool.find(key) is None:
                    pulled = self._export(placement.pull_from, key, actions)
                    if pulled is not None:
                        self._pool.pin(pulled)
                        found.append(pulled)
        return tuple(found)

    def _reclaim(
        self,
        instance_id: int,
        request_id: RequestId,
        needed: Footprint,
        order_key: Callable[[RequestId], OrderKey],
        actions: list[Action],
    ) -> None:
        """Move idle KV out until the chunk's blocks are free."""
        ledger = self._instances[instance_id].ledger
        count = ledger.needed_blocks(request_id, needed)
        if count <= ledger.free_blocks:
            return
        for key in eviction_order(ledger, request_id, order_key):
            self._export(instance_id, key, actions)
            actions.append(DropObject(instance_id=instance_id, key=key))
            if key.member is None:
                ledger.drop_prompt(key.group)
            else:
                victim = RequestId(key.group, key.member)
                ledger.drop_request(victim)
                del self._homes[victim]
            if count <= ledger.free_blocks:
                return

    def _export(self, instance_id: int, key: KVKey, actions: list[Action]) -> PoolRecord | None:
        """Copy an object to the pool, unless it is there, is not whole, or there is no room."""
        size = self._instances[instance_id].ledger.exportable(key)
        is_pending = (instance_id, key) in self._exporting  # for an earlier user of the same id
        if size is None or is_pending or self._pool.find(key) is not None:
            return None
        reserved = self._pool.reserve(key, size.blocks, size.num_tokens)
        if reserved is None:
            return None
        self._exporting[instance_id, key] = reserved.record
        actions += _spill_actions(reserved.spills)
        entry = reserved.record.entry
        export = ExportObject(instance_id=instance_id, key=key, slots=entry.slots, tier=entry.tier)
        actions.append(export)
        return reserved.record

    def _release(self, key: KVKey) -> None:
        record = self._pool.find(key)
        if record is not None:
            self._pool.remove(record)

    def _unpin(self, flight: Flight) -> None:
        for record in flight.loads:
            self._pool.unpin(record)


def _spill_actions(spills: Sequence[Spill]) -> list[Action]:
    return [
        SpillObject(
            key=spill.key,
            host_slots=spill.host_slots,
            disk_slots=spill.disk_slots,
            remote_slots=spill.remote_slots,
        )
        for spill in spills
    ]
