"""The pool by keys alone, for engines that manage their KV by hash and take no orders on it (vLLM).

The same files and the same remote store as `kvpool/pool.py`, but without an owner's account of the
slots: a key has `WAYS` slots of each tier in which it may lie. What is written takes a free one of
them, or displaces the oldest, which goes to the next tier. So every process on the machine finds
what another one wrote, and no process has to be asked. Two that write to one slot at once spoil it;
the header's checksum makes that a missing block, as everything else that goes wrong.

Whoever is about to write reserves the slots first: then another process that looks for a block can
wait for it instead of computing it.
"""

import contextlib
import enum
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol, Self

from seer.kvpool.disk_store import DiskStore
from seer.kvpool.host_store import HostStore
from seer.kvpool.mooncake.tier import MooncakeTier
from seer.kvpool.slots import HEADER_BYTES, SlotLayout, SlotState, key_of, pack_reservation
from seer.types import PoolAddress

WAYS = 8
RESERVATION_US = 5_000_000
"""How long a reservation is believed; whoever made it may have died."""


class Found(NamedTuple):
    """What a look-up has found."""

    num_blocks: int
    """Blocks that are there, from the first on."""
    is_coming: bool
    """Whether the next one is about to be written."""


class HashedPool:
    """One process's side. One thread at a time."""

    def __init__(
        self,
        address: PoolAddress,
        host: HostStore | None,
        disk: DiskStore | None,
        remote: MooncakeTier | None,
        now_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
    ) -> None:
        """Takes the stores over; see `open`. `now_us` is a clock that all processes share."""
        self._host = host
        self._disk = disk
        self._remote = remote
        self._num_host = address.num_host_slots
        self._num_disk = address.num_disk_slots
        self._now_us = now_us
        self._payload = memoryview(bytearray(address.payload_bytes))
        self._whole = memoryview(bytearray(HEADER_BYTES + address.payload_bytes))

    @classmethod
    def open(cls, address: PoolAddress) -> Self:
        """Attach to a pool. Raises OSError when its files are not there.

        A host tier in the memory of other machines is passed over.
        """
        host = disk = remote = None
        if address.num_host_slots and not address.host_path.startswith("tcp://"):
            host = HostStore(address.host_path, _layout(address, address.num_host_slots))
        if address.num_disk_slots:
            disk = DiskStore(address.disk_path, _layout(address, address.num_disk_slots))
        if address.remote is not None:
            remote = MooncakeTier(address.remote, address.payload_bytes)
        return cls(address, host, disk, remote)

    def find(self, keys: Sequence[bytes]) -> Found:
        """How many blocks could be read, from the first on."""
        places = [self._look(key) for key in keys]
        coming = places.index(_Place.COMING) if _Place.COMING in places else len(keys)
        asked = [i for i in range(coming) if places[i] is _Place.ELSEWHERE]
        num_remote = self._num_remote([keys[i] for i in asked])
        if num_remote < len(asked):
            return Found(asked[num_remote], is_coming=False)
        return Found(coming, is_coming=coming < len(keys))

    def missing(self, keys: Sequence[bytes]) -> list[int]:
        """Which of these blocks are not in the pool's fastest tier."""
        if self._host is None:
            return list(range(self._num_remote(keys), len(keys)))
        return [i for i, key in enumerate(keys) if self._slot(self._host, key) is None]

    def reserve(self, keys: Sequence[bytes]) -> None:
        """Say that these blocks are about to be written."""
        if self._host is None:
            return
        now = self._now_us()
        for key in keys:
            slot = self._victim(self._host, self._num_host, key)
            self._push_down(slot)
            self._host.reserve(slot, key, now)

    def write(self, keys: Sequence[bytes], payloads: Iterator[bytes | memoryview]) -> None:
        """Store blocks; without a host tier, in the remote store."""
        if self._host is None:
            if self._remote is not None:
                self._remote.put(keys, self._now_us(), payloads)
            return
        for key, payload in zip(keys, payloads, strict=True):
            slot = self._victim(self._host, self._num_host, key)
            if not self._host.state(slot).is_reserved:
                self._push_down(slot)
            now = self._now_us()
            reserved = pack_reservation(key, now)
            self._host.write(slot, key, now, memoryview(payload), header_meanwhile=reserved)

    def read(self, keys: Sequence[bytes]) -> Iterator[memoryview]:
        """Payloads up to the first block that is missing; each valid until the next."""
        start = 0
        while start < len(keys):
            if self._read_local(keys[start]):
                yield self._payload
                start += 1
                continue
            run = [keys[start], *takewhile(lambda k: not self._is_local(k), keys[start + 1 :])]
            num_read = 0
            for payload in self._remote.get(run) if self._remote is not None else ():
                yield payload
                num_read += 1
            if num_read < len(run):
                return
            start += num_read

    def close(self) -> None:
        """Detach. Idempotent."""
        for store in (self._host, self._disk, self._remote):
            if store is not None:
                store.close()
        self._host = self._disk = self._remote = None

    def _num_remote(self, keys: Sequence[bytes]) -> int:
        return self._remote.has(keys) if self._remote is not None and keys else 0

    def _is_local(self, key: bytes) -> bool:
        stores = (self._host, self._disk)
        return any(s is not None and self._slot(s, key) is not None for s in stores)

    def _read_local(self, key: bytes) -> bool:
        for store in (self._host, self._disk):
            slot = self._slot(store, key) if store is not None else None
            if store is not None and slot is not None and store.read(slot, key, self._payload):
                return True
        return False

    def _slot(self, store: HostStore | DiskStore, key: bytes) -> int | None:
        """The slot that says it holds the key."""
        count = self._num_host if store is self._host else self._num_disk
        for slot in _candidates(key, count):
            state = store.state(slot)
            if state.is_written and state.key == key:
                return slot
        return None

    def _look(self, key: bytes) -> "_Place":
        """Where a block is. Each header is read once: a block may come while we look."""
        if self._host is not None:
            since = self._now_us() - RESERVATION_US
            for slot in _candidates(key, self._num_host):
                state = self._host.state(slot)
                if state.key == key and state.is_written:
                    return _Place.HERE
                if state.key == key and state.is_reserved and state.stamp > since:
                    return _Place.COMING
        is_on_disk = self._disk is not None and self._slot(self._disk, key) is not None
        return _Place.HERE if is_on_disk else _Place.ELSEWHERE

    def _victim(self, store: "_Slots", count: int, key: bytes) -> int:
        """The slot to write a key to: its own, a free one, or the oldest."""
        states = {slot: store.state(slot) for slot in _candidates(key, count)}
        own = next((slot for slot, state in states.items() if state.key == key), None)
        return own if own is not None else min(states, key=lambda slot: _age(states[slot]))

    def _push_down(self, slot: int) -> None:
        """Save what a host slot holds in a lower tier."""
        if (self._disk is None and self._remote is None) or self._host is None:
            return
        whole = self._host.intact_slot(slot) if self._host.state(slot).is_written else None
        if whole is None:
            return
        with whole:
            key = key_of(bytes(whole[:HEADER_BYTES]))
            if self._disk is None:
                self._put_remote(key, whole)
                return
            target = self._victim(self._disk, self._num_disk, key)
            if self._remote is not None and self._disk.read_slot(target, self._whole):
                self._put_remote(key_of(bytes(self._whole[:HEADER_BYTES])), self._whole)
            with contextlib.suppress(OSError):  # a full disk: the block is lost
                self._disk.write_slot(target, whole)

    def _put_remote(self, key: bytes, whole: memoryview) -> None:
        if self._remote is not None:
            self._remote.put([key], self._now_us(), iter([whole[HEADER_BYTES:]]))


class _Place(enum.Enum):
    HERE = enum.auto()
    COMING = enum.auto()
    ELSEWHERE = enum.auto()


class _Slots(Protocol):
    def state(self, slot: int) -> SlotState: ...


def _candidates(key: bytes, num_slots: int) -> range:
    """The slots in which a key may lie."""
    num_sets = max(1, num_slots // WAYS)
    first = int.from_bytes(key[:8], "little") % num_sets * WAYS
    return range(first, min(first + WAYS, num_slots))


def _age(state: SlotState) -> int:
    return state.stamp if state.is_written or state.is_reserved else -1


def _layout(address: PoolAddress, num_slots: int) -> SlotLayout:
    return SlotLayout(payload_bytes=address.payload_bytes, num_slots=num_slots)
