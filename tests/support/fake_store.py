"""A Mooncake store in this process's memory, with the failures that were seen of real ones."""

import ctypes
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

NOT_FOUND = -704
OUT_OF_MEMORY = -200
RPC_FAIL = -900


@dataclass
class FakeStore:
    """Objects by name; copies from and to addresses."""

    room: int = 1000
    """Objects that fit."""
    objects: dict[str, bytes] = field(default_factory=dict)
    is_lost: bool = False
    """The master is gone: every call fails."""
    is_closed: bool = False
    gate: threading.Event | None = None
    """Calls wait for it, if it is there."""
    num_calls: int = 0

    def register_buffer(self, pointer: int, num_bytes: int) -> int:
        """Take note of nothing."""
        assert pointer
        assert num_bytes
        return 0

    def batch_put_from(
        self, names: Sequence[str], pointers: Sequence[int], sizes: Sequence[int]
    ) -> Sequence[int]:
        """Store what is not there yet."""
        if self._fails():
            return [RPC_FAIL] * len(names)
        return [
            self._put(name, ctypes.string_at(pointer, size))
            for name, pointer, size in zip(names, pointers, sizes, strict=True)
        ]

    def batch_get_into(
        self, names: Sequence[str], pointers: Sequence[int], sizes: Sequence[int]
    ) -> Sequence[int]:
        """Copy objects out."""
        if self._fails():
            return [RPC_FAIL] * len(names)
        codes = []
        for name, pointer, size in zip(names, pointers, sizes, strict=True):
            data = self.objects.get(name)
            if data is not None:
                assert len(data) <= size
                ctypes.memmove(pointer, data, len(data))
            codes.append(NOT_FOUND if data is None else len(data))
        return codes

    def batch_is_exist(self, names: Sequence[str]) -> Sequence[int]:
        """Look names up."""
        if self._fails():
            return [RPC_FAIL] * len(names)
        return [int(name in self.objects) for name in names]

    def remove_by_regex(self, pattern: str) -> int:
        """Remove objects."""
        if self._fails():
            return RPC_FAIL
        gone = [name for name in self.objects if re.match(pattern, name)]
        for name in gone:
            del self.objects[name]
        return len(gone)

    def close(self) -> int:
        """Note it."""
        self.is_closed = True
        return 0

    def forget(self, key: bytes) -> None:
        """Evict an object."""
        del self.objects[self._name(key)]

    def corrupt(self, key: bytes) -> None:
        """Flip a bit of an object's last byte."""
        data = bytearray(self.objects[self._name(key)])
        data[-1] ^= 1
        self.objects[self._name(key)] = bytes(data)

    def rename(self, key: bytes, other: bytes) -> None:
        """Put one block under another's name."""
        self.objects[self._name(other)] = self.objects[self._name(key)]

    def _put(self, name: str, data: bytes) -> int:
        if name not in self.objects and len(self.objects) >= self.room:
            return OUT_OF_MEMORY
        self.objects.setdefault(name, data)
        return 0

    def _fails(self) -> bool:
        self.num_calls += 1
        if self.gate is not None:
            self.gate.wait()
        return self.is_lost

    def _name(self, key: bytes) -> str:
        return next(name for name in self.objects if name.endswith(key.hex()))
