import pytest
from hypothesis import given
from hypothesis import strategies as st

from seer.kvpool.pool_ledger import PoolLedger, PoolRecord, Spill
from seer.types import KVKey, Tier

A, B, C, D = (KVKey(0, member) for member in range(4))


def _put(pool: PoolLedger, key: KVKey, num_slots: int) -> PoolRecord:
    """Export an object, done at once."""
    reserved = pool.reserve(key, num_slots, 10)
    assert reserved is not None
    for spill in reserved.spills:
        pool.end_spill(spill.key, is_ok=True)
    pool.unpin(reserved.record)
    pool.check_integrity()
    return reserved.record


def test_an_entry_takes_free_host_slots_and_gives_them_back() -> None:
    """Removal is idempotent."""
    pool = PoolLedger(4, 0)
    record = _put(pool, A, 3)
    assert record.entry.tier is Tier.HOST
    assert pool.find(A) is record
    pool.remove(record)
    pool.remove(record)
    assert pool.find(A) is None
    assert _put(pool, B, 4).entry.slots == (0, 1, 2, 3)


def test_the_least_recently_used_entry_is_dropped_when_there_is_no_disk() -> None:
    """Use is a load's end, too."""
    pool = PoolLedger(4, 0)
    a, b = _put(pool, A, 2), _put(pool, B, 2)
    pool.pin(a)
    pool.unpin(a)
    _put(pool, C, 1)
    assert pool.find(A) is a
    assert pool.find(B) is None
    assert b.is_removed


def test_a_full_disk_tier_spills_to_the_remote_tier_first() -> None:
    """Its slots are free for what the host tier spills in turn."""
    pool = PoolLedger(2, 2, 9)
    a, b = _put(pool, A, 2), _put(pool, B, 2)
    reserved = pool.reserve(C, 1, 10)
    assert reserved is not None
    assert reserved.spills == (
        Spill(key=A, disk_slots=(0, 1), remote_slots=(0, 1)),
        Spill(key=B, host_slots=(0, 1), disk_slots=(0, 1)),
    )
    assert (a.entry.tier, b.entry.tier) == (Tier.REMOTE, Tier.DISK)
    for spill in reserved.spills:
        pool.end_spill(spill.key, is_ok=spill.key != A)
    assert pool.find(A) is None
    pool.check_integrity()


def test_a_tier_that_is_too_small_is_passed_over() -> None:
    """Three blocks do not fit the disk: they go from host memory to the remote tier."""
    pool = PoolLedger(3, 2, 9)
    _put(pool, A, 3)
    reserved = pool.reserve(B, 1, 10)
    assert reserved is not None
    assert reserved.spills == (Spill(key=A, host_slots=(0, 1, 2), remote_slots=(0, 1, 2)),)


def test_without_a_host_tier_exports_go_to_the_remote_tier() -> None:
    """There the least recently used entry makes room, and is dropped."""
    pool = PoolLedger(0, 0, 2)
    assert _put(pool, A, 2).entry.tier is Tier.REMOTE
    assert _put(pool, B, 1).entry.tier is Tier.REMOTE
    assert pool.find(A) is None
    assert pool.reserve(C, 3, 10) is None


def test_the_host_tier_spills_to_the_disk_tier() -> None:
    """The host slots are free at once, the entry is pinned until the spill is reported."""
    pool = PoolLedger(2, 2)
    a = _put(pool, A, 2)
    reserved = pool.reserve(B, 2, 10)
    assert reserved is not None
    assert reserved.spills == (Spill(key=A, host_slots=(0, 1), disk_slots=(0, 1)),)
    assert reserved.record.entry.slots == (0, 1)
    assert a.entry.tier is Tier.DISK
    assert a.num_pins == 1
    pool.end_spill(A, is_ok=True)
    assert a.num_pins == 0
    assert pool.find(A) is a
    pool.check_integrity()


def test_the_disk_tier_drops_its_oldest() -> None:
    """Host to disk to nowhere."""
    pool = PoolLedger(2, 2)
    for key in (A, B, C):
        _put(pool, key, 2)
    assert pool.find(A) is None
    tiers = [record.entry.tier for key in (B, C) if (record := pool.find(key))]
    assert tiers == [Tier.DISK, Tier.HOST]


def test_what_does_not_fit_on_disk_is_dropped() -> None:
    """No disk entry is evicted in vain."""
    pool = PoolLedger(3, 2)
    _put(pool, A, 1)
    _put(pool, B, 3)
    assert pool.find(A) is not None
    _put(pool, C, 3)
    assert pool.find(B) is None
    a = pool.find(A)
    assert a is not None
    assert a.entry.tier is Tier.DISK


def test_a_failed_spill_loses_the_entry() -> None:
    """Its disk slots come back."""
    pool = PoolLedger(1, 1)
    _put(pool, A, 1)
    reserved = pool.reserve(B, 1, 10)
    assert reserved is not None
    pool.unpin(reserved.record)
    pool.end_spill(A, is_ok=False)
    assert pool.find(A) is None
    _put(pool, C, 1)
    assert pool.find(B) is not None
    pool.end_spill(D, is_ok=False)  # of an entry that is not there


def test_an_object_is_not_spilled_twice_at_a_time() -> None:
    """The second report could not be told from the first: the entry is dropped."""
    pool = PoolLedger(1, 3)
    a = _put(pool, A, 1)
    reserved = pool.reserve(B, 1, 10)
    assert reserved is not None
    pool.remove(a)  # while its spill is pending
    pool.remove(reserved.record)
    pool.unpin(reserved.record)
    _put(pool, A, 1)
    again = pool.reserve(C, 1, 10)
    assert again is not None
    assert again.spills == ()
    assert pool.find(A) is None
    pool.end_spill(A, is_ok=True)
    assert pool.num_free[Tier.DISK] == 3


def test_entries_in_use_are_never_evicted() -> None:
    """No room is found instead, and nothing changes."""
    pool = PoolLedger(4, 4)
    a, b = _put(pool, A, 2), _put(pool, B, 2)
    pool.pin(a)
    assert pool.reserve(C, 3, 10) is None
    assert pool.find(B) is b
    assert b.entry.tier is Tier.HOST
    assert pool.reserve(C, 2, 10) is not None
    assert a.entry.tier is Tier.HOST
    assert pool.reserve(D, 5, 10) is None


def test_the_slots_of_a_removed_entry_come_back_with_its_last_pin() -> None:
    """A reader is never overwritten."""
    pool = PoolLedger(2, 0)
    a = _put(pool, A, 2)
    pool.pin(a)
    pool.pin(a)
    pool.remove(a)
    assert pool.find(A) is None
    assert pool.reserve(B, 1, 10) is None
    pool.unpin(a)
    assert pool.reserve(B, 1, 10) is None
    pool.unpin(a)
    assert pool.reserve(B, 2, 10) is not None


def test_an_object_is_not_exported_twice() -> None:
    """The caller asks `find` first."""
    pool = PoolLedger(2, 0)
    _put(pool, A, 1)
    with pytest.raises(AssertionError, match="twice"):
        pool.reserve(A, 1, 10)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 4)), max_size=60))
def test_every_slot_is_free_or_held_once_after_any_operations(
    steps: list[tuple[int, int, int]],
) -> None:
    """Once everything is removed and let go, all slots are free."""
    pool = PoolLedger(7, 5, 6)
    pinned: list[PoolRecord] = []
    for operation, member, count in steps:
        record = pool.find(KVKey(0, member))
        if operation == 0 and record is None:
            reserved = pool.reserve(KVKey(0, member), count, 10)
            pinned += [reserved.record] if reserved else []
        elif operation == 1 and record is not None:
            pool.pin(record)
            pinned.append(record)
        elif operation == 2 and record is not None:
            pool.remove(record)
        elif operation == 3 and pinned:
            pool.unpin(pinned.pop(member % len(pinned)))
        elif operation > 3:
            pool.end_spill(KVKey(0, member), is_ok=operation == 4)
        pool.check_integrity()
    for record in pinned:
        pool.unpin(record)
    for member in range(6):
        pool.end_spill(KVKey(0, member), is_ok=True)
        record = pool.find(KVKey(0, member))
        if record is not None:
            pool.remove(record)
    assert pool.num_free == {Tier.HOST: 7, Tier.DISK: 5, Tier.REMOTE: 6}
