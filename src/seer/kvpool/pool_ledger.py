"""Which slot of the pool holds what.

Owns the slots of both tiers and the entries in them. An entry is pinned while somebody writes or
reads it (an export or a spill that is pending, a chunk that loads it); a pinned entry is never
evicted, and its slots are given back only after the last pin. Invariant: every slot is free or
belongs to exactly one entry.

Eviction order, when an export finds no free host slots: the least recently used entry first, from
the host tier to the disk tier; there it displaces the least recently used of the disk tier, which
is dropped; what the disk tier cannot take is dropped at once. An entry is used when it is written
and when a chunk that loads it ends. # Paper silent: Mooncake's own eviction is not described.
"""

from collections import OrderedDict
from dataclasses import dataclass

from msgspec.structs import replace

from seer.types import KVKey, PoolEntry, Tier


@dataclass(slots=True, eq=False)
class PoolRecord:
    """An entry of the pool and who uses it. Changed by the ledger only."""

    entry: PoolEntry
    num_pins: int = 0
    is_removed: bool = False
    """No longer found; its slots come back with the last pin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spill:
    """A copy from host to disk that the ledger counts on."""

    key: KVKey
    host_slots: tuple[int, ...]
    disk_slots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Host slots for an export, and the spills that must come before it."""

    record: PoolRecord
    spills: tuple[Spill, ...]


class PoolLedger:
    """Slots and entries of the pool."""

    def __init__(self, num_host_slots: int, num_disk_slots: int) -> None:
        self._tiers = {Tier.HOST: _Slots(num_host_slots), Tier.DISK: _Slots(num_disk_slots)}
        self._records: dict[KVKey, PoolRecord] = {}
        self._spilling: dict[KVKey, PoolRecord] = {}

    @property
    def num_free(self) -> dict[Tier, int]:
        """Free slots of each tier."""
        return {name: tier.num_free for name, tier in self._tiers.items()}

    def find(self, key: KVKey) -> PoolRecord | None:
        """The entry of an object, written or being written."""
        return self._records.get(key)

    def reserve(self, key: KVKey, num_slots: int, num_tokens: int) -> Reserved | None:
        """Take host slots for an export of an object that the pool does not hold.

        The new entry is pinned until `unpin`. None, with nothing changed, when entries in use leave
        too few slots.
        """
        assert key not in self._records, "exported twice"  # noqa: S101 - the caller asked `find`
        host = self._tiers[Tier.HOST]
        if num_slots > host.num_free + host.num_evictable:
            return None
        spills = []
        while host.num_free < num_slots:
            spill = self._evict_from_host()
            if spill is not None:
                spills.append(spill)
        entry = PoolEntry(
            key=key, tier=Tier.HOST, slots=host.take(num_slots), num_tokens=num_tokens
        )
        record = PoolRecord(entry, num_pins=1)
        self._records[key] = record
        return Reserved(record=record, spills=tuple(spills))

    def pin(self, record: PoolRecord) -> None:
        """Keep an entry where it is until `unpin`."""
        if record.num_pins == 0:
            self._tiers[record.entry.tier].forget(record)
        record.num_pins += 1

    def unpin(self, record: PoolRecord) -> None:
        """Undo one `pin`; with the last one a removed entry gives its slots back."""
        record.num_pins -= 1
        if record.num_pins:
            return
        tier = self._tiers[record.entry.tier]
        if record.is_removed:
            tier.give(record.entry.slots)
        else:
            tier.remember(record)

    def remove(self, record: PoolRecord) -> None:
        """Forget an entry. Idempotent."""
        if record.is_removed:
            return
        record.is_removed = True
        del self._records[record.entry.key]
        if record.num_pins == 0:
            tier = self._tiers[record.entry.tier]
            tier.forget(record)
            tier.give(record.entry.slots)

    def end_spill(self, key: KVKey, *, is_ok: bool) -> None:
        """A spill is done; one that failed has lost the object. Unknown keys are ignored."""
        record = self._spilling.pop(key, None)
        if record is None:
            return
        if not is_ok:
            self.remove(record)
        self.unpin(record)

    def check_integrity(self) -> None:
        """Raise AssertionError unless every slot is free or belongs to one entry."""
        for name, tier in self._tiers.items():
            live = [r for r in self._records.values() if r.entry.tier is name]
            held = [slot for r in live for slot in r.entry.slots]
            tier.check_integrity(held)
            idle = sum(len(r.entry.slots) for r in live if not r.num_pins)
            assert tier.num_evictable == idle, "evictable slots differ"  # noqa: S101
        assert not any(r.is_removed for r in self._records.values())  # noqa: S101

    def _evict_from_host(self) -> Spill | None:
        """Free the slots of the host tier's oldest entry; the spill that saves it, if any."""
        record = self._tiers[Tier.HOST].oldest()
        key, host_slots = record.entry.key, record.entry.slots
        if key in self._spilling or not self._make_disk_room(len(host_slots)):
            self.remove(record)
            return None
        self.pin(record)
        disk_slots = self._tiers[Tier.DISK].take(len(host_slots))
        self._tiers[Tier.HOST].give(host_slots)
        record.entry = replace(record.entry, tier=Tier.DISK, slots=disk_slots)
        self._spilling[key] = record
        return Spill(key=key, host_slots=host_slots, disk_slots=disk_slots)

    def _make_disk_room(self, num_slots: int) -> bool:
        disk = self._tiers[Tier.DISK]
        if num_slots > disk.num_free + disk.num_evictable:
            return False
        while disk.num_free < num_slots:
            self.remove(disk.oldest())
        return True


class _Slots:
    """Free slots of one tier, and its entries that may be evicted, least recently used first."""

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._free = list(range(num_slots - 1, -1, -1))
        self._idle: OrderedDict[KVKey, PoolRecord] = OrderedDict()
        self.num_evictable = 0
        """Slots of the entries that may be evicted."""

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> tuple[int, ...]:
        return tuple(self._free.pop() for _ in range(count))

    def give(self, slots: tuple[int, ...]) -> None:
        self._free.extend(reversed(slots))

    def remember(self, record: PoolRecord) -> None:
        self._idle[record.entry.key] = record
        self.num_evictable += len(record.entry.slots)

    def forget(self, record: PoolRecord) -> None:
        del self._idle[record.entry.key]
        self.num_evictable -= len(record.entry.slots)

    def oldest(self) -> PoolRecord:
        return next(iter(self._idle.values()))

    def check_integrity(self, held: list[int]) -> None:
        """Slots of removed entries that are still pinned are neither free nor in `held`."""
        known = held + self._free
        assert len(known) == len(set(known)), "a slot is held twice"  # noqa: S101
        assert all(0 <= slot < self._num_slots for slot in known), "no such slot"  # noqa: S101
