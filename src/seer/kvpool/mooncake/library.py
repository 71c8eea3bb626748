"""The Mooncake library: imported only when a pool uses it, and what to say when that fails.

Tried: mooncake-transfer-engine-non-cuda 0.3.13.post1.
"""

import importlib
import socket
from collections.abc import Sequence
from typing import Protocol, cast

from seer.errors import InvalidInput

PACKAGE = "mooncake-transfer-engine-non-cuda"
_PROBE_LIMIT_S = 2.0
_NO_METADATA_SERVER = "P2PHANDSHAKE"
_CLIENT_BUFFER_BYTES = 16 * 2**20
"""Mooncake's own staging memory, which registered buffers do not go through."""


class Store(Protocol):
    """What is used of `mooncake.store.MooncakeDistributedStore`; numbers below 0 are errors."""

    def register_buffer(self, pointer: int, num_bytes: int) -> int:
        """Let transfers go to and from this memory directly."""

    def batch_put_from(
        self, names: Sequence[str], pointers: Sequence[int], sizes: Sequence[int]
    ) -> Sequence[int]:
        """Store bytes; 0 for each object that is there afterwards, also if it was before."""

    def batch_get_into(
        self, names: Sequence[str], pointers: Sequence[int], sizes: Sequence[int]
    ) -> Sequence[int]:
        """Read objects; the bytes of each."""

    def batch_is_exist(self, names: Sequence[str]) -> Sequence[int]:
        """1 for each object that is there, 0 for others."""

    def remove_by_regex(self, pattern: str) -> int:
        """Remove what is not leased; the number of objects."""

    def close(self) -> int:
        """Disconnect; a segment of this process leaves the store."""


def connect(master: str, segment_bytes: int = 0) -> Store:
    """A client of the store, with `segment_bytes` of memory for it from this process.

    Raises InvalidInput without the library or a master, or when Mooncake refuses.
    """
    check_library()
    check_master(master)  # Mooncake's own attempt would hold the interpreter's lock for minutes
    local = local_address(master)
    store = importlib.import_module("mooncake.store").MooncakeDistributedStore()
    code = store.setup(
        local, _NO_METADATA_SERVER, segment_bytes, _CLIENT_BUFFER_BYTES, "tcp", "", master
    )
    if code != 0:
        raise InvalidInput("pool", master, f"Mooncake refused to set up a client (code {code})")
    return cast("Store", store)


def check_library() -> None:
    """Raise InvalidInput, saying how to install what is missing, unless Mooncake can be used."""
    try:
        importlib.import_module("mooncake.store")
    except ImportError as error:
        raise InvalidInput("pool", "mooncake", f"{_how_to_install(error)} ({error})") from error


def _how_to_install(error: ImportError) -> str:
    if "libibverbs" in str(error):
        return "Mooncake needs libibverbs, RDMA or not: apt-get install libibverbs1"
    return f"Mooncake is not installed: pip install {PACKAGE} (on CUDA: mooncake-transfer-engine)"


def check_master(master: str) -> None:
    """Raise InvalidInput unless something listens at the master's address."""
    try:
        socket.create_connection(_host_and_port(master), _PROBE_LIMIT_S).close()
    except OSError as error:
        allowed = f"no Mooncake master answers there ({error}); start one: see docs/kvpool.md"
        raise InvalidInput("pool", f"mooncake://{master}", allowed) from error


def local_address(master: str) -> str:
    """This machine's address on the way to the master: loopback for a master on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_host_and_port(master))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _host_and_port(master: str) -> tuple[str, int]:
    host, _, port = master.rpartition(":")
    return host, int(port)
