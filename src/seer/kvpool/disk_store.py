"""The disk tier: the same checked slots in one file, written by the owner, read by every engine."""

import os
from pathlib import Path

from seer.kvpool.pool_files import create_pool_file, remove_pool_file
from seer.kvpool.slots import (
    HEADER_BYTES,
    INVALID_HEADER,
    SlotLayout,
    SlotState,
    is_intact,
    names,
    slot_state,
)


class DiskFile:
    """The owner's side: the file's life and the writes. Space is taken as slots are written."""

    def __init__(self, directory: Path, layout: SlotLayout) -> None:
        """Create the file. Raises OSError when the directory is not writable."""
        self._layout = layout
        self._descriptor, self.path = create_pool_file(directory, layout.file_bytes, reserve=False)

    def write_slot(self, slot: int, whole: memoryview) -> None:
        """Store a slot's header and payload. Raises OSError when the disk is full or fails."""
        start = self._layout.offset(slot)
        _write_slot(self._descriptor, start, whole)

    def read_slot(self, slot: int, whole: memoryview) -> bool:
        """Copy a slot, header included, into `whole`; False unless the checksum holds."""
        return _read_slot(self._descriptor, self._layout.offset(slot), whole)

    def close(self) -> None:
        """Unlink the file."""
        remove_pool_file(self._descriptor, self.path)


class DiskStore:
    """The slots of a file. One writer a slot at a time."""

    def __init__(self, path: str, layout: SlotLayout) -> None:
        """Open the file. Raises OSError when it is not there."""
        self._layout = layout
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def state(self, slot: int) -> SlotState:
        """What a slot's header says. Raises IndexError for a slot outside the file."""
        header = os.pread(self._descriptor, HEADER_BYTES, self._layout.offset(slot))
        return slot_state(header.ljust(HEADER_BYTES, b"\0"))

    def write_slot(self, slot: int, whole: memoryview) -> None:
        """Store a slot's header and payload. Raises OSError when the disk is full or fails."""
        _write_slot(self._descriptor, self._layout.offset(slot), whole)

    def read_slot(self, slot: int, whole: memoryview) -> bool:
        """Copy a slot, header included, into `whole`; False unless the checksum holds."""
        return _read_slot(self._descriptor, self._layout.offset(slot), whole)

    def read(self, slot: int, key: bytes, out: memoryview) -> bool:
        """Copy a slot's payload into `out` if it holds exactly that many bytes under `key`."""
        if not self._layout.has(slot):
            return False
        buffer = bytearray(HEADER_BYTES)
        start = self._layout.offset(slot)
        try:
            count = os.preadv(self._descriptor, [buffer, out], start)
        except OSError:  # an unreadable sector is a missing block
            return False
        header = bytes(buffer)
        if count != HEADER_BYTES + out.nbytes or not names(header, key, out.nbytes):
            return False
        return is_intact(header, out)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _write_slot(descriptor: int, start: int, whole: memoryview) -> None:
    _write_all(descriptor, memoryview(INVALID_HEADER), start)
    _write_all(descriptor, whole[HEADER_BYTES:], start + HEADER_BYTES)
    _write_all(descriptor, whole[:HEADER_BYTES], start)


def _read_slot(descriptor: int, start: int, whole: memoryview) -> bool:
    try:
        count = os.preadv(descriptor, [whole], start)
    except OSError:  # an unreadable sector is a missing block
        return False
    return count == whole.nbytes and is_intact(bytes(whole[:HEADER_BYTES]), whole[HEADER_BYTES:])


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all bytes: `pwrite` may take a part only."""
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
