"""The remote tier against a store in memory: what is read is what was put, or nothing; no hang."""

import ctypes
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from seer.errors import InvalidInput
from seer.kvpool.mooncake import library, tier
from seer.kvpool.mooncake.address import new_address, parse_address
from seer.kvpool.mooncake.spills import RemoteSpills
from seer.kvpool.mooncake.tier import MooncakeTier
from seer.kvpool.pool import PoolClient, PoolConfig, PoolOwner
from seer.kvpool.slots import slot_bytes
from seer.types import RemoteAddress, Tier
from support.fake_store import FakeStore

PAYLOAD_BYTES = 1000
KEYS = [bytes([i]) * 16 for i in range(7)]
URL = "mooncake://127.0.0.1:50051"


def _payload(fill: int) -> bytes:
    return bytes((fill + i) % 256 for i in range(PAYLOAD_BYTES))


def _tier(store: FakeStore, namespace: str = "job") -> MooncakeTier:
    address = RemoteAddress(master="127.0.0.1:1", namespace=namespace)
    return MooncakeTier(address, PAYLOAD_BYTES, lambda: store, staging_bytes=3 * 1064)


def _put(target: MooncakeTier, count: int = len(KEYS)) -> bool:
    return target.put(KEYS[:count], 30, (_payload(i) for i in range(count)))


def _get(source: MooncakeTier, keys: Sequence[bytes] = KEYS) -> list[bytes]:
    return [bytes(payload) for payload in source.get(keys)]


def test_round_trip_in_batches_of_the_staging_memory() -> None:
    """More blocks than staging rows; another process's tier reads them."""
    store = FakeStore()
    assert _put(_tier(store))
    assert _get(_tier(store)) == [_payload(i) for i in range(len(KEYS))]


def test_reading_ends_at_the_first_missing_block() -> None:
    """What lies behind it is of no use."""
    store = FakeStore()
    _put(_tier(store))
    store.forget(KEYS[4])
    assert len(_get(_tier(store))) == 4


def test_corrupt_and_misnamed_objects_read_as_missing() -> None:
    """The header names the key and a checksum of the payload."""
    store = FakeStore()
    _put(_tier(store))
    store.corrupt(KEYS[1])
    store.rename(KEYS[3], KEYS[2])
    assert len(_get(_tier(store))) == 1
    assert _get(_tier(store), KEYS[2:3]) == []


def test_objects_never_change() -> None:
    """Putting a name again is fine, and keeps what is there."""
    store = FakeStore()
    _put(_tier(store), 1)
    assert _tier(store).put(KEYS[:1], 30, iter([_payload(9)]))
    assert _get(_tier(store), KEYS[:1]) == [_payload(0)]


def test_two_jobs_do_not_meet() -> None:
    """Equal keys of two pools are two objects, and clearing one leaves the other."""
    store = FakeStore()
    ours = _tier(store, "a")
    _put(ours)
    assert _get(_tier(store, "b")) == []
    _put(_tier(store, "b"))
    ours.clear()
    assert len(store.objects) == len(KEYS)
    assert _get(_tier(store, "b"), KEYS[:1]) == [_payload(0)]
    assert new_address(URL).namespace != new_address(URL).namespace


def test_a_full_store_refuses_and_stays_in_use() -> None:
    """The object is lost; the tier is not given up."""
    store = FakeStore(room=2)
    target = _tier(store)
    assert not _put(target)
    assert len(_get(target)) == 2


def test_a_lost_store_is_asked_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure the tier is silent; later it looks again."""
    store = FakeStore()
    target = _tier(store)
    _put(target)
    store.is_lost = True
    calls = store.num_calls
    assert _get(target) == []
    assert not _put(target)
    assert store.num_calls == calls + 1
    store.is_lost = False
    monkeypatch.setattr(target, "_silent_until", 0.0)
    assert len(_get(target)) == len(KEYS)


def test_a_call_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for no longer than the limit, and nothing is asked until it has returned."""
    monkeypatch.setattr(tier, "_CALL_LIMIT_S", 0.05)
    monkeypatch.setattr(tier, "RETRY_S", 0.0)
    store = FakeStore()
    target = _tier(store)
    _put(target)
    store.gate = threading.Event()
    calls = store.num_calls
    assert _get(target) == []
    assert _get(target) == []
    assert store.num_calls == calls + 1
    target.close()
    assert not store.is_closed
    store.gate.set()


def test_connecting_is_tried_with_the_first_use() -> None:
    """A store that cannot be reached costs the blocks, not the engine."""

    def refuse() -> FakeStore:
        raise InvalidInput("pool", "mooncake", "none")

    address = RemoteAddress(master="127.0.0.1:1", namespace="job")
    assert not _put(MooncakeTier(address, PAYLOAD_BYTES, refuse))


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[PoolOwner, FakeStore]]:
    """A pool of four host slots, three disk slots and a remote store."""
    config = PoolConfig(
        host_bytes=4 * slot_bytes(PAYLOAD_BYTES),
        disk_bytes=3 * slot_bytes(PAYLOAD_BYTES),
        disk_dir=str(tmp_path),
    )
    pool = PoolOwner.create(config, PAYLOAD_BYTES)
    store = FakeStore()
    pool._remote = RemoteSpills(_tier(store), pool._slots, pool._disk, pool.address)
    yield pool, store
    pool.close()


def test_spills_from_host_and_disk(owner: tuple[PoolOwner, FakeStore]) -> None:
    """Slots go out of shared memory as they lie there, and from disk through memory."""
    pool, store = owner
    client = PoolClient.open(pool.address)
    client.write_blocks(Tier.HOST, (2, 0), KEYS[:2], 30, iter([_payload(0), _payload(1)]))
    assert pool.spill((2, 0), (1, 2)).ok
    client.write_blocks(Tier.HOST, (2, 0), KEYS[2:4], 30, iter([_payload(2), _payload(3)]))
    spilled = pool.spill((2, 0), ())
    assert spilled.ok
    assert spilled.num_bytes == 2 * PAYLOAD_BYTES
    assert pool.spill((), (1, 2)).ok
    assert _get(_tier(store), KEYS[:4]) == [_payload(i) for i in range(4)]
    client.close()


def test_a_corrupt_slot_is_not_spilled(owner: tuple[PoolOwner, FakeStore]) -> None:
    """Neither from memory nor from disk; a full store fails the spill, too."""
    pool, store = owner
    assert not pool.spill((1,), ()).ok
    assert not pool.spill((), (1,)).ok
    client = PoolClient.open(pool.address)
    client.write_blocks(Tier.HOST, (1,), KEYS[:1], 30, iter([_payload(0)]))
    store.room = 0
    assert not pool.spill((1,), ()).ok
    client.close()


def test_closing_a_pool_removes_its_objects(owner: tuple[PoolOwner, FakeStore]) -> None:
    """Nothing of a job stays behind."""
    pool, store = owner
    client = PoolClient.open(pool.address)
    client.write_blocks(Tier.HOST, (1,), KEYS[:1], 30, iter([_payload(0)]))
    assert pool.spill((1,), ()).ok
    client.close()
    pool.close()
    assert not store.objects
    assert store.is_closed


@pytest.mark.parametrize(
    "url", ["mooncake://", "mooncake://host", "mooncake://host:0", "mooncake://host:70000", "h:1"]
)
def test_addresses_are_checked(url: str) -> None:
    """A pool is named `mooncake://host:port`."""
    with pytest.raises(InvalidInput, match="mooncake://host:port"):
        PoolConfig(remote=url)
    assert parse_address("mooncake://a-b.c:50051") == "a-b.c:50051"


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        ("libibverbs.so.1: cannot open shared object file", "apt-get install libibverbs1"),
        ("No module named 'mooncake'", "pip install mooncake-transfer-engine-non-cuda"),
    ],
)
def test_a_missing_library_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, why: str, advice: str
) -> None:
    """The user reads what to type."""

    def fail(_: str) -> None:
        raise ImportError(why)

    monkeypatch.setattr(library.importlib, "import_module", fail)
    with pytest.raises(InvalidInput, match=advice):
        library.check_library()


def test_memory_of_a_fake_store_is_real() -> None:
    """The fake copies from addresses, as Mooncake does."""
    data = ctypes.create_string_buffer(b"abc", 3)
    store = FakeStore()
    assert list(store.batch_put_from(["x"], [ctypes.addressof(data)], [3])) == [0]
    assert store.objects["x"] == b"abc"
