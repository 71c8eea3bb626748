"""The pool by keys alone: processes find each other's blocks without an account of the slots."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from seer.kvpool import host_store
from seer.kvpool.hashed_pool import RESERVATION_US, WAYS, HashedPool
from seer.kvpool.mooncake.tier import MooncakeTier
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.kvpool.slots import SlotState, pack_header, slot_bytes
from seer.types import PoolAddress, RemoteAddress
from support.fake_store import FakeStore

PAYLOAD_BYTES = 1000
KEYS = [i.to_bytes(16, "little") for i in range(40)]


class Clock:
    """Advances by one with each look."""

    now_us = 0

    def __call__(self) -> int:
        self.now_us += 1
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _address(tmp_path: Path, host_slots: int, disk_slots: int) -> Iterator[PoolAddress]:
    size = slot_bytes(PAYLOAD_BYTES)
    config = PoolConfig(
        host_bytes=host_slots * size, disk_bytes=disk_slots * size, disk_dir=str(tmp_path)
    )
    owner = PoolOwner.create(config, PAYLOAD_BYTES)
    yield owner.address
    owner.close()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[PoolAddress]:
    """One set of host slots, two of disk slots."""
    yield from _address(tmp_path, WAYS, 2 * WAYS)


def _open(address: PoolAddress, clock: Clock, store: FakeStore | None = None) -> HashedPool:
    pool = HashedPool.open(address)
    pool._now_us = clock
    if store is not None:
        remote = RemoteAddress(master="127.0.0.1:1", namespace="job")
        pool._remote = MooncakeTier(remote, PAYLOAD_BYTES, lambda: store)
    return pool


def _payload(key: bytes) -> bytes:
    return bytes((key[0] + i) % 256 for i in range(PAYLOAD_BYTES))


def _write(pool: HashedPool, keys: Sequence[bytes]) -> None:
    pool.write(keys, map(_payload, keys))


def _read(pool: HashedPool, keys: Sequence[bytes]) -> int:
    """How many blocks are read, from the first on; each is checked."""
    payloads = [bytes(payload) for payload in pool.read(keys)]
    assert payloads == [_payload(key) for key in keys[: len(payloads)]]
    return len(payloads)


def test_what_one_process_writes_another_finds(address: PoolAddress, clock: Clock) -> None:
    """From the first block to the first that is missing."""
    writer, reader = _open(address, clock), _open(address, clock)
    _write(writer, KEYS[:3])
    assert reader.find(KEYS[:5]) == (3, False)
    assert reader.find(KEYS[4:]) == (0, False)
    assert _read(reader, KEYS[:5]) == 3
    assert reader.missing(KEYS[:5]) == [3, 4]


def test_what_memory_cannot_hold_goes_to_disk_and_on(address: PoolAddress, clock: Clock) -> None:
    """Nothing is lost with a remote store below; the oldest is the farthest away."""
    store = FakeStore()
    pool = _open(address, clock, store)
    for key in KEYS:
        _write(pool, [key])
    assert store.objects
    assert _open(address, clock, store).find(KEYS) == (len(KEYS), False)
    assert _read(pool, KEYS) == len(KEYS)


def test_without_lower_tiers_the_oldest_is_displaced(tmp_path: Path, clock: Clock) -> None:
    """A set holds `WAYS` blocks."""
    for address in _address(tmp_path, WAYS, 0):
        pool = _open(address, clock)
        for key in KEYS[: WAYS + 1]:
            _write(pool, [key])
        assert pool.find(KEYS[:1]) == (0, False)
        assert pool.find(KEYS[1 : WAYS + 1]) == (WAYS, False)


def test_a_reserved_block_is_awaited_for_a_while(address: PoolAddress, clock: Clock) -> None:
    """Until it is written, or whoever reserved it must have died."""
    writer, reader = _open(address, clock), _open(address, clock)
    writer.reserve(KEYS[:2])
    assert reader.find(KEYS[:2]) == (0, True)
    _write(writer, KEYS[:1])
    assert reader.find(KEYS[:2]) == (1, True)
    clock.now_us += RESERVATION_US
    assert reader.find(KEYS[:2]) == (1, False)
    assert _read(reader, KEYS[:2]) == 1


def test_a_spoilt_block_reads_as_missing(address: PoolAddress, clock: Clock) -> None:
    """Two writers in one slot, or a flipped bit: the checksum tells."""
    pool = _open(address, clock)
    _write(pool, KEYS[:2])
    size = Path(address.host_path).stat().st_size // address.num_host_slots
    with Path(address.host_path).open("r+b") as file:
        file.seek(size + size // 2)
        file.write(b"??")
    assert _read(pool, KEYS[:2]) == 1


def test_a_pool_without_memory_uses_the_remote_store(tmp_path: Path, clock: Clock) -> None:
    """As where instances are on several machines."""
    store = FakeStore()
    for address in _address(tmp_path, 0, 0):
        pool = _open(address, clock, store)
        pool.reserve(KEYS[:2])
        _write(pool, KEYS[:2])
        assert pool.missing(KEYS[:3]) == [2]
        assert pool.find(KEYS[:3]) == (2, False)
        assert _read(pool, KEYS[:3]) == 2
        store.is_lost = True
        assert pool.find(KEYS[:3]) == (0, False)


def test_a_block_stays_reserved_while_it_is_written(
    address: PoolAddress, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks in the middle of the copy waits, and does not take it for missing."""
    writer, reader = _open(address, clock), _open(address, clock)
    seen = []

    def look(key: bytes, num_tokens: int, payload: memoryview) -> bytes:
        seen.append(reader.find(KEYS[:1]))  # the payload is there, its header is not
        return pack_header(key, num_tokens, payload)

    monkeypatch.setattr(host_store, "pack_header", look)
    _write(writer, KEYS[:1])
    assert seen == [(0, True)]
    assert reader.find(KEYS[:1]) == (1, False)


def test_a_block_that_comes_while_one_looks_is_not_missing(
    address: PoolAddress, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was reserved a moment ago, and is there now: to ask again is right."""
    writer, reader = _open(address, clock), _open(address, clock)
    writer.reserve(KEYS[:1])
    assert reader._host is not None
    look = reader._host.state

    def look_and_write(slot: int) -> SlotState:
        state = look(slot)
        if state.is_reserved:
            _write(writer, KEYS[:1])
        return state

    monkeypatch.setattr(reader._host, "state", look_and_write)
    assert reader.find(KEYS[:1]) == (0, True)
    assert reader.find(KEYS[:1]) == (1, False)
