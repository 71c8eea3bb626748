"""Files behind the pool: private, locked by their owner, and swept up if it was killed.

An owner holds an exclusive `flock` on each of its files for as long as it lives; the kernel lets go
of it however the owner ends. So a pool file that nobody has locked belongs to nobody.
"""

import os
import tempfile
from pathlib import Path

from seer import directories

PREFIX = "seer-pool-"


def create_pool_file(directory: Path, num_bytes: int, *, reserve: bool) -> tuple[int, str]:
    """Create a file (mode 0600) of `num_bytes` and lock it; returns its descriptor and path.

    With `reserve` its space is taken at once, so that writing through a mapping cannot fail later.
    Raises OSError when there is no room; nothing is left behind then.
    """
    remove_abandoned(directory)
    descriptor, path = tempfile.mkstemp(prefix=PREFIX, dir=directory)
    try:
        directories.lock(descriptor)
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
    directories.remove_abandoned(directory.glob(f"{PREFIX}*"), lambda path: path, Path.unlink)
