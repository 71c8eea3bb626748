"""Directories that we write to: those of results, and those where killed owners leave files."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from seer.errors import InvalidInput

_GRACE_S = 60.0
"""Younger paths are left alone: their owner may not have locked them yet."""


def writable_directory(out: str) -> Path:
    """The directory `out`, made if need be. Raises InvalidInput unless one can write there."""
    path = Path(out)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            "out", out, f"allowed: a directory that can be made ({error})"
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InvalidInput("out", out, "allowed: a writable directory")
    return path


def lock(descriptor: int) -> None:
    """Mark an open file as owned; the kernel lets go of that however the owner ends.

    Raises OSError when it is owned by someone who lives.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_abandoned(
    paths: Iterable[Path], lock_file: Callable[[Path], Path], remove: Callable[[Path], None]
) -> None:
    """Remove what owners that were killed have left; each path has a file that its owner locks."""
    for path in paths:
        with contextlib.suppress(OSError):  # in use, not ours, or removed by someone else
            if time.time() - path.stat().st_mtime > _GRACE_S:
                _remove_if_unlocked(path, lock_file(path), remove)


def _remove_if_unlocked(path: Path, lock_file: Path, remove: Callable[[Path], None]) -> None:
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC)
    try:
        lock(descriptor)
        remove(path)
    finally:
        os.close(descriptor)
