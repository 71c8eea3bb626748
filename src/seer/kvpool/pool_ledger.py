"""Which slot of the pool holds what.

Owns the slots of all tiers and the entries in them. An entry is pinned while somebody writes or
reads it (an export or a spill that is pending, a chunk that loads it); a pinned entry is never
evicted, and its slots are given back only after the last pin. Invariant: every slot is free or
belongs to exactly one entry.

Eviction order, when an export finds no free host slots: the least recently used entry first, from
the host tier to the disk tier, where it displaces the least recently used, which goes on to the
remote tier, or is dropped without one. A tier that cannot take an entry is passed over. Exports go
to the remote tier directly where there is no host tier. An entry is used when it is written and
when a chunk that loads it ends. # Paper silent: Mooncake's own eviction is not described.
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
    """A copy to a lower tier that the ledger counts on."""

    key: KVKey
    host_slots: tuple[int, ...] = ()
    disk_slots: tuple[int, ...] = ()
    remote_slots: tuple[int, ...] = ()
    """Two of the three are given: source and target, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Slots for an export, and the spills that must come before it, in order."""

    record: PoolRecord
    spills: tuple[Spill, ...]


class PoolLedger:
    """Slots and entries of the pool."""

    def __init__(self, num_host_slots: int, num_disk_slots: int, num_remote_slots: int = 0) -> None:
        self._tiers = {
            Tier.HOST: _Slots(num_host_slots),
            Tier.DISK: _Slots(num_disk_slots),
            Tier.REMOTE: _Slots(num_remote_slots),
        }
        self._export_tier = Tier.HOST if num_host_slots or not num_remote_slots else Tier.REMOTE
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
        """Take slots for an export of an object that the pool does not hold.

        The new entry is pinned until `unpin`. None, with nothing changed, when entries in use leave
        too few slots.
        """
        assert key not in self._records, "exported twice"  # noqa: S101 - the caller asked `find`
        spills: list[Spill] = []
        if not self._make_room(self._export_tier, num_slots, spills):
            return None
        slots = self._tiers[self._export_tier].take(num_slots)
        entry = PoolEntry(key=key, tier=self._export_tier, slots=slots, num_tokens=num_tokens)
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

    def _make_room(self, tier: Tier, num_slots: int, spills: list[Spill]) -> bool:
        """Free slots of a tier; False, with nothing changed, when entries in use leave too few.

        Adds the copies that save what leaves it to `spills`, each before those that rely on it.
        """
        slots = self._tiers[tier]
        if num_slots > slots.num_free + slots.num_evictable:
            return False
        while slots.num_free < num_slots:
            self._evict(slots.oldest(), spills)
        return True

    def _evict(self, record: PoolRecord, spills: list[Spill]) -> None:
        """Free an entry's slots: it goes to the next lower tier that takes it, or is dropped."""
        entry = record.entry
        num_slots = len(entry.slots)
        is_spilling = entry.key in self._spilling  # for an earlier object of the same key
        target = None if is_spilling else self._lower_tier(entry.tier, num_slots, spills)
        if target is None:
            self.remove(record)
            return
        self.pin(record)
        slots = self._tiers[target].take(num_slots)
        self._tiers[entry.tier].give(entry.slots)
        record.entry = replace(entry, tier=target, slots=slots)
        self._spilling[entry.key] = record
        spills.append(_spill(entry, record.entry))

    def _lower_tier(self, tier: Tier, num_slots: int, spills: list[Spill]) -> Tier | None:
        """The first lower tier that has room, or made it."""
        lower = _ORDER[_ORDER.index(tier) + 1 :]
        return next((t for t in lower if self._make_room(t, num_slots, spills)), None)


_ORDER = (Tier.HOST, Tier.DISK, Tier.REMOTE)


def _spill(source: PoolEntry, target: PoolEntry) -> Spill:
    slots = {source.tier: source.slots, target.tier: target.slots}
    return Spill(
        key=source.key,
        host_slots=slots.get(Tier.HOST, ()),
        disk_slots=slots.get(Tier.DISK, ()),
        remote_slots=slots.get(Tier.REMOTE, ()),
    )


class _Slots:
    """Free slots of one tier, and its entries that may be evicted, least recently used first."""

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._free: list[int] = []
        """Slots that were given back."""
        self._num_touched = 0
        """Slots from this one on were never taken."""
        self._idle: OrderedDict[KVKey, PoolRecord] = OrderedDict()
        self.num_evictable = 0
        """Slots of the entries that may be evicted."""

    @property
    def num_free(self) -> int:
        return len(self._free) + self._num_slots - self._num_touched

    def take(self, count: int) -> tuple[int, ...]:
        again = tuple(self._free.pop() for _ in range(min(count, len(self._free))))
        first = self._num_touched
        self._num_touched += count - len(again)
        return again + tuple(range(first, self._num_touched))

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
