import os
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from seer.errors import InvalidInput
from seer.trainers import weight_files
from seer.trainers.weight_files import WeightFiles

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.weight": torch.ones(4)}


def test_a_version_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """Names, shapes and values; a transposed view is written as it looks."""
    files = WeightFiles(tmp_path)
    tensors = {**WEIGHTS, "c.weight": WEIGHTS["a.weight"].T}
    loaded = load_file(files.write(1, tensors) / "model.safetensors")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    files.close()


def test_only_the_newest_version_stays(tmp_path: Path) -> None:
    """Old versions go when the instances have the new one."""
    files = WeightFiles(tmp_path)
    old, new = files.write(1, WEIGHTS), files.write(2, WEIGHTS)
    files.keep_only(2)
    assert (old.exists(), new.exists()) == (False, True)
    files.close()


def test_closing_leaves_nothing_behind(tmp_path: Path) -> None:
    """The private directory goes, and a later write makes another."""
    files = WeightFiles(tmp_path)
    files.write(1, WEIGHTS)
    files.close()
    files.close()
    assert list(tmp_path.iterdir()) == []
    files.write(1, WEIGHTS)
    files.close()


def test_a_full_disk_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the directory and the bytes; the version before is untouched."""
    files = WeightFiles(tmp_path)
    old = files.write(1, WEIGHTS)
    monkeypatch.setattr(weight_files, "_free_bytes", lambda _: 10)
    with pytest.raises(InvalidInput, match="40 bytes free; 10 are"):
        files.write(2, WEIGHTS)
    assert list(old.parent.glob("version-*")) == [old]
    files.close()


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """weights_dir must exist."""
    with pytest.raises(InvalidInput, match="weights_dir"):
        WeightFiles(tmp_path / "nowhere").write(1, WEIGHTS)


def test_shared_memory_without_room_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions must fit, else the temporary directory is taken."""
    monkeypatch.setattr(weight_files, "_SHARED_MEMORY", Path("/proc"))
    files = WeightFiles(None)
    assert not files.write(1, WEIGHTS).is_relative_to("/proc")
    files.close()


def test_what_a_killed_trainer_left_is_removed(tmp_path: Path) -> None:
    """An old directory that nobody has locked goes; a locked one stays."""
    living, dead = WeightFiles(tmp_path), WeightFiles(tmp_path)
    kept, left = living.write(1, WEIGHTS).parent, dead.write(1, WEIGHTS).parent
    assert dead._lock is not None
    os.close(dead._lock)  # as the kernel does when a process ends
    for root in (kept, left):
        os.utime(root, (time.time() - 120, time.time() - 120))
    other = WeightFiles(tmp_path)
    other.write(1, WEIGHTS)
    assert (kept.exists(), left.exists()) == (True, False)
    living.close()
    other.close()
