"""Versions of the policy's weights as safetensors files, for every instance to read.

The trainer writes a version once; the instances map the same file. Only the version that they have
is kept: a lost instance that comes back loads it.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from seer.directories import lock, remove_abandoned
from seer.errors import InvalidInput

if TYPE_CHECKING:
    from torch import Tensor

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - directories there are made by mkdtemp
_PREFIX = "seer-weights-"


class WeightFiles:
    """A private directory with one directory a version, made at the first write."""

    def __init__(self, parent: Path | None) -> None:
        """`parent` None: shared memory if two versions fit, else the temporary directory."""
        self._parent = parent
        self._root: Path | None = None
        self._lock: int | None = None

    def write(self, version: int, tensors: Mapping[str, "Tensor"]) -> Path:
        """Write a version. Raises InvalidInput when there is no room; the others stay."""
        from safetensors.torch import save_file  # noqa: PLC0415 - heavy, optional

        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if self._root is None:
            self._root, self._lock = _make_root(self._parent or _roomy(2 * needed))
        free = _free_bytes(self._root)
        if free < needed:
            allowed = f"allowed: a directory with {needed} bytes free; {free} are"
            raise InvalidInput("weights_dir", str(self._root.parent), allowed)
        directory = self._version_dir(self._root, version)
        directory.mkdir()
        # Contiguous tensors are written from where they lie, without a copy.
        whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        save_file(whole, directory / "model.safetensors")
        return directory

    def keep_only(self, version: int) -> None:
        """Remove every other version."""
        if self._root is not None:
            for directory in self._root.iterdir():
                if directory.is_dir() and directory != self._version_dir(self._root, version):
                    shutil.rmtree(directory)

    def close(self) -> None:
        """Remove everything. Idempotent."""
        if self._root is not None and self._lock is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            os.close(self._lock)
            self._root = self._lock = None

    @staticmethod
    def _version_dir(root: Path, version: int) -> Path:
        return root / f"version-{version}"


def _make_root(parent: Path) -> tuple[Path, int]:
    """A new directory and its lock, which the kernel lets go of however we end."""
    remove_abandoned(parent.glob(f"{_PREFIX}*"), _lock_file, shutil.rmtree)
    try:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    except OSError as error:
        allowed = f"allowed: a directory that can be written to ({error.strerror})"
        raise InvalidInput("weights_dir", str(parent), allowed) from error
    descriptor = os.open(_lock_file(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    lock(descriptor)
    return root, descriptor


def _lock_file(root: Path) -> Path:
    return root / "lock"


def _roomy(num_bytes: int) -> Path:
    """Shared memory if that much is free there, else the temporary directory."""
    has_room = os.access(_SHARED_MEMORY, os.W_OK) and _free_bytes(_SHARED_MEMORY) >= num_bytes
    return _SHARED_MEMORY if has_room else Path(tempfile.gettempdir())


def _free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free
