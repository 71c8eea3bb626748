"""Checkpoints that count only when they are complete, and the settings they belong to.

transformers' Trainer writes the files (weights as safetensors, optimiser, schedule, RNG, step). A
checkpoint counts once its marker is there: written last, when everything else is on the disk. So a
kill or a full disk at any moment leaves the previous one as the newest.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from seer.errors import InvalidInput
from seer.trainers.training.config import MAY_DIFFER, TrainConfig

PREFIX = "checkpoint-"
MARKER_NAME = "seer_complete.json"


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the marker."""

    step: int
    files: dict[str, int]
    """Bytes of each other file."""
    config: dict[str, Any]
    """The settings, as JSON has them."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A complete checkpoint."""

    path: Path
    step: int
    config: dict[str, Any]
    """Settings of the run that wrote it."""


def mark_complete(directory: Path, step: int, config: TrainConfig) -> None:
    """Bring all files of a checkpoint to the disk, then its marker. Raises OSError."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for path in files:
        _sync(path)
    sizes = {str(path.relative_to(directory)): path.stat().st_size for path in files}
    unfinished = directory / f".{MARKER_NAME}.tmp"
    marker = Marker(step=step, files=sizes, config=msgspec.to_builtins(config))
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(marker)))
    _sync(unfinished)
    unfinished.rename(directory / MARKER_NAME)
    _sync(directory)
    _sync(directory.parent)


def complete_checkpoints(out: Path) -> list[Checkpoint]:
    """The complete checkpoints of a run, oldest first."""
    found = [_read(directory) for directory in out.glob(f"{PREFIX}*")]
    return sorted((each for each in found if each is not None), key=lambda each: each.step)


def remove_incomplete(out: Path) -> None:
    """Remove what an interrupted write left: checkpoints without a marker."""
    for directory in out.glob(f"{PREFIX}*"):
        if not (directory / MARKER_NAME).exists():
            shutil.rmtree(directory)


def keep_newest(out: Path, number: int) -> None:
    """Remove complete checkpoints but the newest ones."""
    for checkpoint in complete_checkpoints(out)[:-number]:
        (checkpoint.path / MARKER_NAME).unlink()  # first, so that a part of one never counts
        shutil.rmtree(checkpoint.path)


def check_same(stored: Mapping[str, Any], present: TrainConfig) -> None:
    """Raise InvalidInput, naming every setting that differs and may not."""
    asked = msgspec.to_builtins(present)
    names = sorted({*asked, *stored} - MAY_DIFFER)
    differing = [name for name in names if asked.get(name) != stored.get(name)]
    if differing:
        shown = ", ".join(f"{name} {_shown(asked.get(name))}" for name in differing)
        was = ", ".join(f"{name} {_shown(stored.get(name))}" for name in differing)
        may = ", ".join(sorted(MAY_DIFFER))
        allowed = f"allowed: what the checkpoint was made with, {was}; only these may differ: {may}"
        raise InvalidInput("resume", shown, allowed)


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _read(directory: Path) -> Checkpoint | None:
    """The checkpoint in a directory; None when it is not complete or not one of ours."""
    try:
        content = (directory / MARKER_NAME).read_bytes()
        marker = msgspec.json.decode(content, type=Marker)
        sizes = {name: (directory / name).stat().st_size for name in marker.files}
    except (OSError, msgspec.DecodeError):
        return None
    if sizes != marker.files:
        return None
    return Checkpoint(path=directory, step=marker.step, config=marker.config)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
