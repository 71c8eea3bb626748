"""The KV pool's memory and files: one owner makes them, engines attach by address.

Which slot holds what is decided elsewhere (`kvpool/pool_ledger.py`); here are bytes only. Every
read is checked against the key that the reader expects, so a wrong or broken slot costs a
re-prefill, never a wrong token.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec

from seer.errors import InvalidInput
from seer.kvpool.disk_store import DiskFile, DiskStore
from seer.kvpool.host_store import HostFile, HostStore
from seer.kvpool.mooncake.address import new_address, parse_address
from seer.kvpool.mooncake.spills import RemoteSpills
from seer.kvpool.mooncake.tier import MooncakeTier
from seer.kvpool.pool_node import PoolNodes, is_pool_nodes
from seer.kvpool.slots import SlotLayout, slot_bytes
from seer.types import PoolAddress, RemoteAddress, Tier


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the pool's tiers. Raises InvalidInput on a bad value."""

    host_bytes: int = 512 * 2**20
    """Limit of the host tier, slot headers included; taken when the pool is created. 0: no pool."""
    disk_bytes: int = 0
    """Limit of the disk tier, likewise; taken as blocks are spilled. 0: no disk tier."""
    disk_dir: str | None = None
    """Where the disk tier's file is made; None: the system's temporary directory."""
    remote: str | None = None
    """A store beyond the other two, `mooncake://host:port`; None: none."""
    remote_bytes: int = 64 * 2**30
    """Most that is kept there, likewise. Where host_bytes is 0 all KV goes there at once."""

    def __post_init__(self) -> None:
        for field in ("host_bytes", "disk_bytes", "remote_bytes"):
            if getattr(self, field) < 0:
                raise InvalidInput(field, getattr(self, field), "allowed: an integer >= 0")
        if self.remote is not None:
            parse_address(self.remote)
        if self.disk_dir is not None and not Path(self.disk_dir).is_dir():
            raise InvalidInput("disk_dir", self.disk_dir, "allowed: an existing directory")


class Spilled(msgspec.Struct, frozen=True, kw_only=True):
    """What a spill did. One that failed loses the object, which costs a later re-prefill."""

    ok: bool
    num_bytes: int = 0


class PoolOwner:
    """Makes the pool's files, spills from tier to tier, and removes the files."""

    def __init__(
        self,
        address: PoolAddress,
        host: HostFile | None,
        disk: DiskFile | None,
        remote: MooncakeTier | None = None,
    ) -> None:
        """Takes the files over; see `create`. Raises InvalidInput when the store is silent."""
        self.address = address
        self._host = host
        self._disk = disk
        self._slots = None if is_pool_nodes(address.host_path) else _map_host(address)
        self._remote = (
            RemoteSpills(remote, self._slots, disk, address) if remote is not None else None
        )

    @classmethod
    def create(cls, config: PoolConfig, payload_bytes: int) -> Self:
        """Make a pool for blocks of `payload_bytes`.

        Raises InvalidInput when there is no room, or when the remote store cannot be used.
        """
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
            remote=_remote_address(config),
            num_remote_slots=_num_remote_slots(config, payload_bytes),
        )
        owner = cls(address, host, disk, _open_remote(address))
        try:
            owner.check()
        except InvalidInput:
            owner.close()
            raise
        return owner

    def check(self) -> None:
        """Raise InvalidInput unless the remote store, where there is one, can be used."""
        if self._remote is not None:
            self._remote.check()

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> Spilled:
        """Copy host slots to disk slots, pairwise; to the remote store where only one is given.

        Not ok when a slot is corrupt, or the target is absent, full or failing.
        """
        if not (host_slots and disk_slots):
            is_ok = self._remote is not None and self._remote.spill(host_slots, disk_slots)
            num_slots = len(host_slots) + len(disk_slots)
            return Spilled(ok=is_ok, num_bytes=is_ok * num_slots * self.address.payload_bytes)
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
        if self._remote is not None:
            self._remote.close()
            self._remote = None
        if self._slots is not None:
            self._slots.close()
        for file in (self._host, self._disk):
            if file is not None:
                file.close()
        self._slots = self._host = self._disk = None


class PoolClient:
    """An engine's side of the pool."""

    def __init__(
        self,
        payload_bytes: int,
        host: HostStore | PoolNodes | None,
        disk: DiskStore | None,
        remote: MooncakeTier | None = None,
    ) -> None:
        self._payload_bytes = payload_bytes
        self._host = host
        self._disk = disk
        self._remote = remote

    @classmethod
    def open(cls, address: PoolAddress) -> Self:
        """Attach to a pool. Raises OSError when its files are not there.

        The remote store is connected to with its first use.
        """
        host, remote = _open_host(address), _open_remote(address)
        if not address.num_disk_slots:
            return cls(address.payload_bytes, host, None, remote)
        layout = SlotLayout(payload_bytes=address.payload_bytes, num_slots=address.num_disk_slots)
        disk = DiskStore(address.disk_path, layout)
        return cls(address.payload_bytes, host, disk, remote)

    def write_blocks(
        self,
        tier: Tier,
        slots: Sequence[int],
        keys: Sequence[bytes],
        num_tokens: int,
        payloads: Iterator[bytes | memoryview],
    ) -> bool:
        """Write an object's blocks; False when the remote store did not take them.

        Raises IndexError for a host slot that does not exist.
        """
        if tier is Tier.REMOTE:
            return self._remote is not None and self._remote.put(keys, num_tokens, payloads)
        for slot, key, payload in zip(slots, keys, payloads, strict=True):
            self.write_block(slot, key, num_tokens, memoryview(payload))
        return True

    def read_blocks(
        self, tier: Tier, slots: Sequence[int], keys: Sequence[bytes]
    ) -> Iterator[memoryview]:
        """Payloads of an object's blocks up to the first that is missing, foreign or corrupt.

        Each is valid until the next is asked for.
        """
        if tier is Tier.REMOTE:
            return self._remote.get(keys) if self._remote is not None else iter(())
        return self._read_slots(tier, slots, keys)

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
        for store in (self._host, self._disk, self._remote):
            if store is not None:
                store.close()
        self._host = self._disk = self._remote = None

    def _read_slots(
        self, tier: Tier, slots: Sequence[int], keys: Sequence[bytes]
    ) -> Iterator[memoryview]:
        payload = memoryview(bytearray(self._payload_bytes))
        for slot, key in zip(slots, keys, strict=True):
            if not self.read_block(tier, slot, key, payload):
                return
            yield payload


def _layout(limit_bytes: int, payload_bytes: int) -> SlotLayout:
    return SlotLayout(
        payload_bytes=payload_bytes, num_slots=limit_bytes // slot_bytes(payload_bytes)
    )


def _open_host(address: PoolAddress) -> HostStore | PoolNodes | None:
    if is_pool_nodes(address.host_path):
        return PoolNodes(address.host_path)
    return _map_host(address)


def _map_host(address: PoolAddress) -> HostStore | None:
    if not address.num_host_slots:
        return None
    layout = SlotLayout(payload_bytes=address.payload_bytes, num_slots=address.num_host_slots)
    return HostStore(address.host_path, layout)


def _remote_address(config: PoolConfig) -> RemoteAddress | None:
    return new_address(config.remote) if config.remote is not None else None


def _num_remote_slots(config: PoolConfig, payload_bytes: int) -> int:
    return config.remote_bytes // slot_bytes(payload_bytes) if config.remote is not None else 0


def _open_remote(address: PoolAddress) -> MooncakeTier | None:
    return MooncakeTier(address.remote, address.payload_bytes) if address.remote else None


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
