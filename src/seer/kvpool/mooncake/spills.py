"""Copies from the pool's own tiers to the remote store, made by the pool's owner.

Slots of the host tier go out from where they lie in shared memory; those on disk are read into
memory first.
"""

import threading

import numpy as np

from seer.kvpool.disk_store import DiskFile
from seer.kvpool.host_store import HostStore
from seer.kvpool.mooncake.tier import MooncakeTier
from seer.kvpool.slots import HEADER_BYTES, SlotLayout, key_of
from seer.types import PoolAddress


class RemoteSpills:
    """The way down to the remote tier."""

    def __init__(
        self,
        tier: MooncakeTier,
        host: HostStore | None,
        disk: DiskFile | None,
        address: PoolAddress,
    ) -> None:
        """The stores must stay open until `close`. Raises OSError without the host tier's file."""
        self._tier = tier
        self._host = host
        self._disk = disk
        self._layout = SlotLayout(
            payload_bytes=address.payload_bytes, num_slots=address.num_host_slots
        )
        self._lock = threading.Lock()  # spills are made on any thread
        self._start = 0
        if host is not None:
            memory = np.memmap(address.host_path, dtype=np.uint8, mode="r+")
            self._start = memory.ctypes.data
            tier.lend(memory)

    def check(self) -> None:
        """Raise InvalidInput unless the store can be used."""
        self._tier.check()

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> bool:
        """Copy an entry's slots of one tier; False unless all were intact and are there now."""
        with self._lock:
            return self._from_host(host_slots) if host_slots else self._from_disk(disk_slots)

    def close(self) -> None:
        """Remove the pool's objects from the store and disconnect."""
        with self._lock:
            self._tier.clear()
            self._tier.close()

    def _from_host(self, slots: tuple[int, ...]) -> bool:
        keys, pointers = [], []
        for slot in slots:
            whole = self._host.intact_slot(slot) if self._host is not None else None
            if whole is None:
                return False
            with whole:
                keys.append(key_of(bytes(whole[:HEADER_BYTES])))
            pointers.append(self._start + self._layout.offset(slot))
        return self._tier.put_slots(keys, pointers)

    def _from_disk(self, slots: tuple[int, ...]) -> bool:
        rows = self._tier.staging
        for start in range(0, len(slots), len(rows)):
            part = slots[start : start + len(rows)]
            keys = []
            for slot, row in zip(part, rows, strict=False):
                if self._disk is None or not self._disk.read_slot(slot, row.data):
                    return False
                keys.append(key_of(row[:HEADER_BYTES].tobytes()))
            if not self._tier.put_slots(keys, [row.ctypes.data for row in rows[: len(part)]]):
                return False
        return True
