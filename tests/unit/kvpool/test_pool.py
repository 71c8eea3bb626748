"""The pool's bytes: what is read is what was written, or nothing."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from seer.errors import InvalidInput
from seer.kvpool.pool import PoolClient, PoolConfig, PoolOwner
from seer.kvpool.pool_files import PREFIX, create_pool_file, remove_abandoned, remove_pool_file
from seer.kvpool.slots import HEADER_BYTES, slot_bytes
from seer.types import PoolAddress, Tier

PAYLOAD_BYTES = 1000
NUM_SLOTS = 4
KEY = bytes(range(16))
OTHER_KEY = bytes(16)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[PoolOwner]:
    size = NUM_SLOTS * slot_bytes(PAYLOAD_BYTES)
    config = PoolConfig(host_bytes=size, disk_bytes=size, disk_dir=str(tmp_path))
    pool = PoolOwner.create(config, PAYLOAD_BYTES)
    yield pool
    pool.close()


@pytest.fixture
def client(owner: PoolOwner) -> Iterator[PoolClient]:
    pool = PoolClient.open(owner.address)
    yield pool
    pool.close()


def _payload(fill: int = 7) -> bytes:
    return bytes((fill + i) % 256 for i in range(PAYLOAD_BYTES))


def _write(client: PoolClient, slot: int, *, key: bytes = KEY, fill: int = 7) -> None:
    client.write_block(slot, key, 30, memoryview(_payload(fill)))


def _read(client: PoolClient, slot: int, tier: Tier = Tier.HOST, key: bytes = KEY) -> bytes | None:
    out = memoryview(bytearray(PAYLOAD_BYTES))
    return bytes(out) if client.read_block(tier, slot, key, out) else None


def _patch(path: str, offset: int, data: bytes) -> None:
    with Path(path).open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_round_trip_between_clients(owner: PoolOwner, client: PoolClient) -> None:
    """What one client writes another reads, bit for bit."""
    other = PoolClient.open(owner.address)
    _write(client, 2)
    assert _read(other, 2) == _payload()
    other.close()


def test_limits_count_headers(owner: PoolOwner) -> None:
    """Slots are as many as fit the byte limit, headers included."""
    assert owner.address.num_host_slots == owner.address.num_disk_slots == NUM_SLOTS
    assert slot_bytes(PAYLOAD_BYTES) >= PAYLOAD_BYTES + HEADER_BYTES


def test_missing_and_foreign_slots(client: PoolClient) -> None:
    """Unwritten slots, other keys, other lengths and slots outside the pool read as missing."""
    _write(client, 0)
    assert _read(client, 1) is None
    assert _read(client, 0, key=OTHER_KEY) is None
    assert not client.read_block(Tier.HOST, 0, KEY, memoryview(bytearray(PAYLOAD_BYTES - 1)))
    assert _read(client, NUM_SLOTS) is None
    assert _read(client, -1) is None
    assert _read(client, 0, tier=Tier.DISK) is None


def test_a_slot_holds_its_last_write(client: PoolClient) -> None:
    """A slot that is written again no longer has what it had."""
    _write(client, 0)
    _write(client, 0, key=OTHER_KEY, fill=9)
    assert _read(client, 0) is None
    assert _read(client, 0, key=OTHER_KEY) == _payload(9)


def test_a_slot_outside_the_pool_is_not_written(client: PoolClient) -> None:
    """Writing there is a mistake of the caller."""
    with pytest.raises(IndexError):
        _write(client, NUM_SLOTS)


@pytest.mark.parametrize("offset", [0, 8, 24, 33, 41, HEADER_BYTES, HEADER_BYTES + 999])
def test_any_flipped_byte_reads_as_missing(
    owner: PoolOwner, client: PoolClient, offset: int
) -> None:
    """Magic, key, token count, length, checksum and payload are all checked, in both tiers."""
    _write(client, 1)
    assert owner.spill((1,), (3,)).ok
    start = slot_bytes(PAYLOAD_BYTES)
    for path, slot, tier in (
        (owner.address.host_path, 1, Tier.HOST),
        (owner.address.disk_path, 3, Tier.DISK),
    ):
        assert _read(client, slot, tier=tier) == _payload()
        with Path(path).open("rb") as file:
            file.seek(slot * start + offset)
            byte = file.read(1)[0]
        _patch(path, slot * start + offset, bytes([byte ^ 4]))
        assert _read(client, slot, tier=tier) is None


def test_spill(owner: PoolOwner, client: PoolClient) -> None:
    """Spilled blocks are read from the disk tier; the host slots may be written again."""
    for slot in (0, 1):
        _write(client, slot, fill=slot)
    spilled = owner.spill((0, 1), (3, 2))
    assert (spilled.ok, spilled.num_bytes) == (True, 2 * PAYLOAD_BYTES)
    _write(client, 0, key=OTHER_KEY, fill=99)
    assert _read(client, 3, tier=Tier.DISK) == _payload(0)
    assert _read(client, 2, tier=Tier.DISK) == _payload(1)


def test_a_corrupt_block_is_not_spilled(owner: PoolOwner, client: PoolClient) -> None:
    """The spill says so instead of storing it."""
    _write(client, 0)
    _patch(owner.address.host_path, HEADER_BYTES + 5, b"\xff\xff")
    assert not owner.spill((0,), (0,)).ok
    assert not owner.spill((1,), (0,)).ok


def test_a_full_disk_fails_the_spill(owner: PoolOwner, client: PoolClient) -> None:
    """An error of the file system is an answer, not an exception; the slot reads as missing."""
    _write(client, 0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * slot_bytes(PAYLOAD_BYTES), limits[1]))
    try:
        assert not owner.spill((0,), (3,)).ok
        assert owner.spill((0,), (0,)).ok
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert _read(client, 3, tier=Tier.DISK) is None
    assert _read(client, 0, tier=Tier.DISK) == _payload()


def test_a_truncated_disk_file_reads_as_missing(owner: PoolOwner, client: PoolClient) -> None:
    """Nothing raises where bytes are gone."""
    _write(client, 0)
    assert owner.spill((0,), (1,)).ok
    os.truncate(owner.address.disk_path, slot_bytes(PAYLOAD_BYTES) + 100)
    assert _read(client, 1, tier=Tier.DISK) is None


def test_a_killed_writer_leaves_no_torn_block(owner: PoolOwner, client: PoolClient) -> None:
    """A process killed while it writes leaves the old block, the new one or none."""
    script = (
        "import sys, itertools, msgspec\n"
        "from seer.kvpool.pool import PoolClient\n"
        "from seer.types import PoolAddress\n"
        "client = PoolClient.open(msgspec.json.decode(sys.argv[1], type=PoolAddress))\n"
        "print('writing', flush=True)\n"
        "for i in itertools.count():\n"
        "    payload = memoryview(bytes([i % 256]) * 1000)\n"
        "    client.write_block(0, bytes(range(16)), 30, payload)\n"
    )
    for delay_s in (0.01, 0.013, 0.017):
        with _python(script, owner.address) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(delay_s)
            writer.kill()
        block = _read(client, 0)
        assert block is None or len(set(block)) == 1


def test_files_are_private_and_removed(tmp_path: Path) -> None:
    """Only the user may read the files; closing, twice too, removes them."""
    config = PoolConfig(host_bytes=5000, disk_bytes=5000, disk_dir=str(tmp_path))
    owner = PoolOwner.create(config, PAYLOAD_BYTES)
    paths = [Path(owner.address.host_path), Path(owner.address.disk_path)]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o600, 0o600]
    owner.close()
    owner.close()
    assert not any(path.exists() for path in paths)


def test_a_pool_of_no_slots() -> None:
    """A pool may be switched off: nothing is written, nothing is found."""
    owner = PoolOwner.create(PoolConfig(host_bytes=0), PAYLOAD_BYTES)
    client = PoolClient.open(owner.address)
    assert owner.address.num_host_slots == 0
    assert _read(client, 0) is None
    assert not owner.spill((0,), (0,)).ok
    client.close()
    owner.close()


def test_files_of_the_dead_are_swept_up(tmp_path: Path) -> None:
    """Old files that no owner holds are removed, those of the living and new ones are not."""
    descriptor, held = create_pool_file(tmp_path, 10, reserve=True)
    abandoned = tmp_path / f"{PREFIX}dead"
    new = tmp_path / f"{PREFIX}new"
    for path in (abandoned, new):
        path.write_bytes(b"")
    for path in (abandoned, Path(held)):
        os.utime(path, (0, 0))
    remove_abandoned(tmp_path)
    assert not abandoned.exists()
    assert new.exists()
    assert Path(held).exists()
    remove_pool_file(descriptor, held)


@pytest.mark.parametrize(
    "settings", [{"host_bytes": -1}, {"disk_bytes": -1}, {"disk_dir": "/no/such/directory"}]
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    """Negative sizes and missing directories are refused by name."""
    with pytest.raises(InvalidInput, match=next(iter(settings))):
        PoolConfig(**settings)


def test_no_room() -> None:
    """More than the machine has is refused by name."""
    with pytest.raises(InvalidInput, match="host_bytes"):
        PoolOwner.create(PoolConfig(host_bytes=2**55), PAYLOAD_BYTES)


def _python(script: str, address: PoolAddress) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", script, msgspec.json.encode(address).decode()],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
