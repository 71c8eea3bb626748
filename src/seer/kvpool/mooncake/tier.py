"""The remote tier: KV blocks in a Mooncake store, named by namespace and block key.

An object is a slot as it lies in the other tiers: a checked header and the payload. So a block that
another job, other weights or a broken transfer has put there reads as missing. Objects never
change: a name stands for one content, and putting it again does nothing. When its memory is full
Mooncake evicts what was not used for longest; what was read a moment ago is leased and stays.

A failure of the store is never one of the rollout. Calls are made on a thread of their own and
given up after a while; after a failure the tier is silent for `RETRY_S`, and what would have come
from it is computed again. (Unbounded, a call to a master that hangs takes 30 s, to one that has
died 4 s.)
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from seer.errors import InvalidInput
from seer.kvpool.mooncake.bounded_call import CallThread
from seer.kvpool.mooncake.library import Store, check_library, check_master, connect
from seer.kvpool.slots import HEADER_BYTES, is_intact, names, pack_header
from seer.types import RemoteAddress

logger = logging.getLogger(__name__)

RETRY_S = 30.0
"""How long the tier is silent after a failure."""
_CONNECT_LIMIT_S = 10.0
_CALL_LIMIT_S = 2.0
_LEAST_BYTES_PER_S = 50e6
"""A transfer that is slower is given up."""
_STAGING_BYTES = 16 * 2**20
_NOT_FOUND = -704
_OUT_OF_MEMORY = -200
_HARMLESS = {_NOT_FOUND, _OUT_OF_MEMORY}
"""Codes that say nothing about the store's health."""

_ABANDONED: list[Store] = []
"""Connections that nobody closes; their destructors must not run either."""


class _Failed(Exception):
    """The store did not do what was asked."""


class MooncakeTier:
    """Blocks of one job in the store, for one process. One thread at a time.

    `open_store` connects to it; it is called with the first use, and again after a failure.
    """

    def __init__(
        self,
        address: RemoteAddress,
        payload_bytes: int,
        open_store: Callable[[], Store] | None = None,
        staging_bytes: int = _STAGING_BYTES,
    ) -> None:
        self._address = address
        self._object_bytes = HEADER_BYTES + payload_bytes
        count = max(1, staging_bytes // self._object_bytes)
        self._staging = np.zeros((count, self._object_bytes), dtype=np.uint8)
        self._open_store = open_store or (lambda: connect(address.master))
        self._thread = CallThread("seer-mooncake")
        self._store: Store | None = None
        self._lent: list[npt.NDArray[np.uint8]] = [self._staging]
        self._silent_until = 0.0

    def check(self) -> None:
        """Connect. Raises InvalidInput when the library is missing or the master silent."""
        check_library()
        check_master(self._address.master)
        try:
            self._thread.call(self._connect, _CONNECT_LIMIT_S)
        except TimeoutError:
            url = f"mooncake://{self._address.master}"
            raise InvalidInput("pool", url, "what listens there is no Mooncake master") from None

    def lend(self, memory: npt.NDArray[np.uint8]) -> None:
        """Let `put_slots` read from this memory without a copy. Call it before the first use.

        It is kept alive as long as a call may still read it.
        """
        self._lent.append(memory)

    def put(
        self, keys: Sequence[bytes], num_tokens: int, payloads: Iterator[bytes | memoryview]
    ) -> bool:
        """Store blocks under their keys; False unless all are there afterwards."""
        for start in range(0, len(keys), len(self._staging)):
            part = keys[start : start + len(self._staging)]
            for row, key in zip(self._staging, part, strict=False):
                payload = memoryview(next(payloads)).cast("B")
                whole = row.data
                whole[:HEADER_BYTES] = pack_header(key, num_tokens, payload)
                whole[HEADER_BYTES:] = payload
            rows = self._staging[: len(part)]
            if not self.put_slots(part, [row.ctypes.data for row in rows]):
                return False
        return True

    def put_slots(self, keys: Sequence[bytes], pointers: Sequence[int]) -> bool:
        """Store whole slots that lie at `pointers`, in memory that was lent."""
        sizes = [self._object_bytes] * len(keys)
        codes = self._call(
            lambda store: store.batch_put_from(self._names(keys), pointers, sizes), sum(sizes)
        )
        return codes is not None and all(code == 0 for code in codes)

    def has(self, keys: Sequence[bytes]) -> int:
        """How many blocks are there, from the first to the first that is missing."""
        found = self._call(lambda store: store.batch_is_exist(self._names(keys)), 0) or ()
        return next((i for i, code in enumerate(found) if code != 1), len(found))

    def get(self, keys: Sequence[bytes]) -> Iterator[memoryview]:
        """Payloads of the blocks up to the first that is missing; each valid until the next."""
        for start in range(0, len(keys), len(self._staging)):
            part = keys[start : start + len(self._staging)]
            for key, row, size in zip(part, self._staging, self._fetch(part), strict=False):
                whole = row.data
                header, payload = bytes(whole[:HEADER_BYTES]), whole[HEADER_BYTES:]
                is_whole = size == len(whole) and names(header, key, len(payload))
                if not (is_whole and is_intact(header, payload)):
                    return
                yield payload

    def clear(self) -> None:
        """Remove the job's objects; those that are leased go when Mooncake needs their memory."""
        if self._store is not None:
            self._call(lambda store: [store.remove_by_regex(f"^{self._prefix}")], 0)

    def close(self) -> None:
        """Disconnect. Idempotent.

        A connection that has failed is left to the end of the process: Mooncake's `close` holds
        the interpreter's lock while it waits for a master that is gone.
        """
        store, self._store = self._store, None
        if store is not None and self._silent_until > 0:
            _ABANDONED.append(store)
        elif store is not None:
            try:
                self._thread.call(store.close, _CALL_LIMIT_S)
            except TimeoutError:
                logger.warning("Mooncake did not let go of its connection in time")
        self._silent_until = float("inf")
        self._thread.close()

    @property
    def staging(self) -> npt.NDArray[np.uint8]:
        """Rows of whole slots, lent to the store, for who fills them by himself."""
        return self._staging

    @property
    def _prefix(self) -> str:
        return f"seer/{self._address.namespace}/"

    def _names(self, keys: Sequence[bytes]) -> list[str]:
        return [self._prefix + key.hex() for key in keys]

    def _fetch(self, keys: Sequence[bytes]) -> Sequence[int]:
        """Read whole slots into the staging rows; bytes read of each, below 0 where there is none.

        An empty list when the store failed.
        """
        pointers = [row.ctypes.data for row in self._staging[: len(keys)]]
        sizes = [self._object_bytes] * len(keys)
        got = self._call(
            lambda store: store.batch_get_into(self._names(keys), pointers, sizes), sum(sizes)
        )
        return got or []

    def _call(self, work: Callable[[Store], Sequence[int]], num_bytes: int) -> Sequence[int] | None:
        """Codes of a call to the store; None when it failed, or is silent after a failure."""
        if time.monotonic() < self._silent_until or not self._thread.is_free:
            return None
        try:
            if self._store is None:
                self._thread.call(self._connect, _CONNECT_LIMIT_S)
            limit_s = _CALL_LIMIT_S + num_bytes / _LEAST_BYTES_PER_S
            return self._thread.call(lambda: self._checked(work), limit_s)
        except (TimeoutError, InvalidInput, _Failed) as error:
            why = str(error) or "no answer in time"
            logger.warning("the Mooncake tier is silent for %.0f s: %s", RETRY_S, why)
            self._silent_until = time.monotonic() + RETRY_S
            return None

    def _checked(self, work: Callable[[Store], Sequence[int]]) -> Sequence[int]:
        assert self._store is not None  # noqa: S101 - connected by the caller
        codes = work(self._store)
        bad = [code for code in codes if code < 0 and code not in _HARMLESS]
        if bad:
            raise _Failed(f"code {bad[0]}")
        return codes

    def _connect(self) -> None:
        if self._store is not None:
            return
        store = self._open_store()
        for memory in self._lent:
            if store.register_buffer(memory.ctypes.data, memory.nbytes) != 0:
                store.close()
                raise InvalidInput("pool", "mooncake", "memory cannot be registered for transfers")
        self._store = store
