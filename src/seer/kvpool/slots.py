"""The form of a pool slot: a checked header, then the bytes of one KV block.

A slot is written by invalidating its header, writing the payload, then the header. So a write torn
by a killed process, a slot that holds another block and a flipped bit all read as missing: the
header names key, length and a CRC-32 of both and of the payload. All fields are little-endian.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from seer.kvpool.keys import KEY_BYTES

MAGIC = b"SEERKV01"
_RESERVED = b"SEERKVWR"
HEADER_BYTES = 64
ALIGNMENT = 64
"""Slots start at multiples of this many bytes."""
INVALID_HEADER = bytes(HEADER_BYTES)

_FIELDS = struct.Struct(f"<8s{KEY_BYTES}sqq")
_CRC = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLayout:
    """Where the slots of a file lie."""

    payload_bytes: int
    num_slots: int

    @property
    def slot_bytes(self) -> int:
        """Bytes from one slot to the next."""
        return slot_bytes(self.payload_bytes)

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file."""
        return self.slot_bytes * self.num_slots

    def offset(self, slot: int) -> int:
        """First byte of a slot's header. Raises IndexError outside the file."""
        if not self.has(slot):
            raise IndexError(f"slot {slot} of {self.num_slots}")
        return slot * self.slot_bytes

    def has(self, slot: int) -> bool:
        """Whether the file has this slot."""
        return 0 <= slot < self.num_slots


def slot_bytes(payload_bytes: int) -> int:
    """Bytes that a slot for `payload_bytes` takes in a file."""
    return -(-(HEADER_BYTES + payload_bytes) // ALIGNMENT) * ALIGNMENT


def pack_header(key: bytes, num_tokens: int, payload: memoryview) -> bytes:
    """Header of a slot that holds `payload` under `key`."""
    fields = _FIELDS.pack(MAGIC, key, num_tokens, payload.nbytes)
    crc = zlib.crc32(payload, zlib.crc32(fields))
    return (fields + _CRC.pack(crc)).ljust(HEADER_BYTES, b"\0")


def names(header: bytes, key: bytes, payload_bytes: int) -> bool:
    """Whether a header says that its slot holds `payload_bytes` bytes under `key`."""
    magic, held_key, _, length = _FIELDS.unpack_from(header)
    return bool(magic == MAGIC and held_key == key and length == payload_bytes)


def key_of(header: bytes) -> bytes:
    """The key of a header that is known to be intact."""
    return bytes(_FIELDS.unpack_from(header)[1])


def pack_reservation(key: bytes, stamp: int) -> bytes:
    """Header of a slot that somebody is about to write `key` to, since `stamp`."""
    return _FIELDS.pack(_RESERVED, key, stamp, 0).ljust(HEADER_BYTES, b"\0")


class SlotState(NamedTuple):
    """What a header says, unchecked."""

    key: bytes
    stamp: int
    """What `pack_header` was given as `num_tokens`."""
    is_written: bool
    is_reserved: bool


def slot_state(header: bytes) -> SlotState:
    """Read a header."""
    magic, key, stamp, _ = _FIELDS.unpack_from(header)
    return SlotState(key, stamp, is_written=magic == MAGIC, is_reserved=magic == _RESERVED)


def is_intact(header: bytes, payload: memoryview) -> bool:
    """Whether magic, length and checksum agree with the payload."""
    magic, _, _, length = _FIELDS.unpack_from(header)
    (crc,) = _CRC.unpack_from(header, _FIELDS.size)
    if magic != MAGIC or length != payload.nbytes:
        return False
    return bool(zlib.crc32(payload, zlib.crc32(header[: _FIELDS.size])) == crc)
