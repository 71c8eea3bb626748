"""Files behind the pool: private, locked by their owner, and swept up if it was killed.

An owner holds an exclusive `flock` on each of its files for as long as it lives; the kernel lets go
of it however the owner ends. So a pool file that nobody has locked belongs to nobody.
"""

import contextlib
import fcntl
import os
import tempfile
import time
from pathlib import Path

PREFIX = "seer-pool-"
_GRACE_S = 60.0
"""Younger files are left alone: their owner may not have locked them yet."""


def create_pool_file(directory: Path, num_bytes: int, *, reserve: bool) -> tuple[int, str]:
    """Create a file (mode 0600) of `num_bytes` and lock it; returns its descriptor and path.

    With `reserve` its space is taken at once, so that writing through a mapping cannot fail later.
    Raises OSError when there is no room; nothing is left behind then.
    """
    remove_abandoned(directory)
    descriptor, path = tempfile.mkstemp(prefix=PREFIX, dir=directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if reserve:
            os.posix_fallocate(descriptor, 0, num_bytes)
        else:
            os.ftruncate(descriptor, num_bytes)
    except OSError:
        remove_pool_file(descriptor, path)
        raise
    return descriptor, path


def remove_pool_file(descriptor: int, path: str) -> None:
    """Close and unlink; processes that have it open keep what they see."""
    os.close(descriptor)
    Path(path).unlink(missing_ok=True)


def remove_abandoned(directory: Path) -> None:
    """Unlink pool files here whose owner is gone. Files of other users are left alone."""
    for path in directory.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, not ours, or removed by someone else
            if time.time() - path.stat().st_mtime > _GRACE_S:
                _remove_if_unlocked(path)


def _remove_if_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)
