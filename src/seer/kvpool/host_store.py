"""The host tier: slots in a file in shared memory, mapped by the owner and by every engine.

A block that one engine writes is read by another straight from memory. The memory is reserved when
the file is created: a full /dev/shm shows there, not as a bus error in the middle of a write.
"""

import mmap
import os
import tempfile
from pathlib import Path

from seer.kvpool.pool_files import create_pool_file, remove_pool_file
from seer.kvpool.slots import (
    HEADER_BYTES,
    INVALID_HEADER,
    SlotLayout,
    SlotState,
    is_intact,
    names,
    pack_header,
    pack_reservation,
    slot_state,
)

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - files there are made by mkstemp


class HostFile:
    """The owner's side: the file's life."""

    def __init__(self, layout: SlotLayout) -> None:
        """Create it. Raises OSError with no room in shared memory nor temporary directory."""
        self._descriptor, self.path = _create(layout.file_bytes)

    def close(self) -> None:
        """Unlink the file."""
        remove_pool_file(self._descriptor, self.path)


class HostStore:
    """The slots of a mapped file, for reading and writing. One writer a slot at a time."""

    def __init__(self, path: str, layout: SlotLayout) -> None:
        """Map the file. Raises OSError when it is not there or too short."""
        self._layout = layout
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size < layout.file_bytes:
                raise OSError(f"{path} is shorter than {layout.file_bytes} bytes")
            self._map = mmap.mmap(descriptor, layout.file_bytes)
        finally:
            os.close(descriptor)
        self._bytes = memoryview(self._map)

    def write(
        self,
        slot: int,
        key: bytes,
        num_tokens: int,
        payload: memoryview,
        header_meanwhile: bytes = INVALID_HEADER,
    ) -> None:
        """Replace a slot. Raises IndexError for a slot outside the file.

        `header_meanwhile` is there while the payload is written; it must be no written slot's.
        """
        start = self._layout.offset(slot)
        header_end = start + HEADER_BYTES
        self._bytes[start:header_end] = header_meanwhile
        self._bytes[header_end : header_end + payload.nbytes] = payload.cast("B")
        self._bytes[start:header_end] = pack_header(key, num_tokens, payload)

    def state(self, slot: int) -> SlotState:
        """What a slot's header says. Raises IndexError for a slot outside the file."""
        start = self._layout.offset(slot)
        return slot_state(bytes(self._bytes[start : start + HEADER_BYTES]))

    def reserve(self, slot: int, key: bytes, stamp: int) -> None:
        """Say that the slot will be written. Raises IndexError for a slot outside the file."""
        start = self._layout.offset(slot)
        self._bytes[start : start + HEADER_BYTES] = pack_reservation(key, stamp)

    def read(self, slot: int, key: bytes, out: memoryview) -> bool:
        """Copy a slot's payload into `out` if it holds exactly that many bytes under `key`."""
        if not self._layout.has(slot):
            return False
        start = self._layout.offset(slot)
        header_end = start + HEADER_BYTES
        header = bytes(self._bytes[start:header_end])
        if not names(header, key, out.nbytes):
            return False
        out.cast("B")[:] = self._bytes[header_end : header_end + out.nbytes]
        return is_intact(header, out)

    def intact_slot(self, slot: int) -> memoryview | None:
        """Header and payload of a slot as they lie in memory; None unless the checksum holds.

        The caller releases the view before `close`.
        """
        start = self._layout.offset(slot)
        whole = self._bytes[start : start + HEADER_BYTES + self._layout.payload_bytes]
        with whole[HEADER_BYTES:] as payload:
            if is_intact(bytes(whole[:HEADER_BYTES]), payload):
                return whole
        whole.release()
        return None

    def close(self) -> None:
        """Unmap. Idempotent."""
        self._bytes.release()
        self._map.close()


def _create(num_bytes: int) -> tuple[int, str]:
    """In shared memory, or in the temporary directory where that is absent or too small."""
    fallback = Path(tempfile.gettempdir())
    try:
        return create_pool_file(_SHARED_MEMORY, num_bytes, reserve=True)
    except OSError:
        return create_pool_file(fallback, num_bytes, reserve=True)
