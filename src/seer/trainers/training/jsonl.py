"""Files of one JSON object a line, that a resumed run goes on with."""

import os
from pathlib import Path

import msgspec


class JsonLines:
    """A file that lines are appended to. Lines belong to steps."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab")

    def append(self, *rows: msgspec.Struct) -> None:
        """Write lines, and hand them to the system at once."""
        self._file.write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        self._file.flush()

    def sync(self) -> None:
        """Bring the lines to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Stepped(msgspec.Struct):
    step: int


def cut_after(path: Path, step: int) -> None:
    """Drop the lines of later steps, and a last line that was cut short.

    The file is replaced in one go, so that an interruption leaves the old or the new one.
    """
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if line.endswith(b"\n") and _step(line) <= step]
    unfinished = path.with_name(f".{path.name}.tmp")
    with unfinished.open("wb") as file:
        file.write(b"".join(kept))
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _step(line: bytes) -> int:
    return msgspec.json.decode(line, type=_Stepped).step
