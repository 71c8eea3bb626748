"""The KV pool's memory and files: one owner makes them, engines attach by address.

Which slot holds what is decided elsewhere (`kvpool/pool_ledger.py`); here are bytes only. Every
read is checked against the key that the reader expects, so a wrong or broken slot costs a
re-prefill, never a wrong token.
"""

import tempfile
from pathlib import Path
from typing import Self

import msgspec

from seer.errors import InvalidInput
from seer.kvpool.disk_store import DiskFile, DiskStore
from seer.kvpool.host_store import HostFile, HostStore
from seer.kvpool.slots import SlotLayout, slot_bytes
from seer.types import PoolAddress, Tier


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the pool's tiers. Raises InvalidInput on a bad value."""

    host_bytes: int = 512 * 2**20
    """Limit of the host tier, slot headers included; taken when the pool is created. 0: no pool."""
    disk_bytes: int = 0
    """Limit of the disk tier, likewise; taken as blocks are spilled. 0: no disk tier."""
    disk_dir: str | None = None
    """Where the disk tier's file is made; None: the system's temporary directory."""

    def __post_init__(self) -> None:
        for field in ("host_bytes", "disk_bytes"):
            if getattr(self, field) < 0:
                raise InvalidInput(field, getattr(self, field), "allowed: an integer >= 0")
        if self.disk_dir is not None and not Path(self.disk_dir).is_dir():
            raise InvalidInput("disk_dir", self.disk_dir, "allowed: an existing directory")


class Spilled(msgspec.Struct, frozen=True, kw_only=True):
    """What a spill did. One that failed loses the object, which costs a later re-prefill."""

    ok: bool
    num_bytes: int = 0


class PoolOwner:
    """Makes the pool's files, spills from host to disk, and removes the files."""

    def __init__(self, address: PoolAddress, host: HostFile | None, disk: DiskFile | None) -> None:
        self.address = address
        self._host = host
        self._disk = disk
        self._slots = _map_host(address)

    @classmethod
    def create(cls, config: PoolConfig, payload_bytes: int) -> Self:
        """Make a pool for blocks of `payload_bytes`. Raises InvalidInput when there is no room."""
        host_layout = _layout(config.host_bytes, payload_bytes)
        disk_layout = _layout(config.disk_bytes, payload_bytes)
        host = _make_host(config, host_layout)
        try:
            disk = _make_disk(config, disk_layout)
        except InvalidInput:
            if host is not None:
                host.close()
            raise
        address = PoolAddress(
            host_path=host.path if host is not None else "",
            num_host_slots=host_layout.num_slots,
            disk_path=disk.path if disk is not None else "",
            num_disk_slots=disk_layout.num_slots,
            payload_bytes=payload_bytes,
        )
        return cls(address, host, disk)

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> Spilled:
        """Copy host slots to disk slots, pairwise.

        Not ok when a host slot is corrupt, or the disk is absent, full or failing.
        """
        if self._slots is None or self._disk is None:
            return Spilled(ok=False)
        num_bytes = 0
        for host_slot, disk_slot in zip(host_slots, disk_slots, strict=True):
            whole = self._slots.intact_slot(host_slot)
            if whole is None:
                return Spilled(ok=False, num_bytes=num_bytes)
            with whole:
                try:
                    self._disk.write_slot(disk_slot, whole)
                except OSError:
                    return Spilled(ok=False, num_bytes=num_bytes)
            num_bytes += self.address.payload_bytes
        return Spilled(ok=True, num_bytes=num_bytes)

    def close(self) -> None:
        """Remove the files; engines that are attached keep what they see. Idempotent."""
        if self._slots is not None:
            self._slots.close()
        for file in (self._host, self._disk):
            if file is not None:
                file.close()
        self._slots = self._host = self._disk = None


class PoolClient:
    """An engine's side of the pool."""

    def __init__(self, host: HostStore | None, disk: DiskStore | None) -> None:
        self._host = host
        self._disk = disk

    @classmethod
    def open(cls, address: PoolAddress) -> Self:
        """Attach to a pool on this machine. Raises OSError when its files are not there."""
        host = _map_host(address)
        if not address.num_disk_slots:
            return cls(host, None)
        layout = SlotLayout(payload_bytes=address.payload_bytes, num_slots=address.num_disk_slots)
        return cls(host, DiskStore(address.disk_path, layout))

    def write_block(self, slot: int, key: bytes, num_tokens: int, payload: memoryview) -> None:
        """Write one block to a host slot. Raises IndexError for a slot that does not exist.

        `num_tokens` (tokens covered by the object's end) is recorded for whoever inspects a pool.
        """
        if self._host is None:
            raise IndexError(f"slot {slot} of a pool without host slots")
        self._host.write(slot, key, num_tokens, payload)

    def read_block(self, tier: Tier, slot: int, key: bytes, out: memoryview) -> bool:
        """Fill `out` from a slot. False, with `out` undefined, unless it is intact under `key`."""
        store = self._host if tier is Tier.HOST else self._disk
        return store is not None and store.read(slot, key, out)

    def close(self) -> None:
        """Detach. Idempotent."""
        for store in (self._host, self._disk):
            if store is not None:
                store.close()
        self._host = self._disk = None


def _layout(limit_bytes: int, payload_bytes: int) -> SlotLayout:
    return SlotLayout(
        payload_bytes=payload_bytes, num_slots=limit_bytes // slot_bytes(payload_bytes)
    )


def _map_host(address: PoolAddress) -> HostStore | None:
    if not address.num_host_slots:
        return None
    layout = SlotLayout(payload_bytes=address.payload_bytes, num_slots=address.num_host_slots)
    return HostStore(address.host_path, layout)


def _make_host(config: PoolConfig, layout: SlotLayout) -> HostFile | None:
    if not layout.num_slots:
        return None
    try:
        return HostFile(layout)
    except OSError as error:
        allowed = f"allowed: what fits in shared memory or the temporary directory ({error})"
        raise InvalidInput("host_bytes", config.host_bytes, allowed) from error


def _make_disk(config: PoolConfig, layout: SlotLayout) -> DiskFile | None:
    if not layout.num_slots:
        return None
    directory = Path(config.disk_dir or tempfile.gettempdir())
    try:
        return DiskFile(directory, layout)
    except OSError as error:
        raise InvalidInput("disk_dir", str(directory), f"not writable ({error})") from error
