"""The output directory of a run: what is in it, and where a resumed run goes on."""

from pathlib import Path
from typing import Any

import msgspec

from seer.directories import writable_directory
from seer.errors import InvalidInput
from seer.trainers.training.checkpoints import (
    Checkpoint,
    check_same,
    complete_checkpoints,
    remove_incomplete,
)
from seer.trainers.training.config import TrainConfig
from seer.trainers.training.jsonl import JsonLines, cut_after

SETTINGS_NAME = "settings.json"
MODEL_NAME = "model"
"""Directory of the trained model."""
REWARD_LOG_NAME = "reward_workers.log"
BEFORE_TRAINING = -1
"""A step whose lines come before any."""


def open_out_dir(config: TrainConfig) -> Checkpoint | None:
    """Make or check the directory; returns the checkpoint to go on from, None: from the start.

    Nothing is written into it yet, so that a run that is refused leaves it free for the next try.

    Raises InvalidInput when results cannot go there, or when a run with other settings began there.
    """
    return _checkpoint_to_resume(writable_directory(config.out), config)


def claim_out_dir(config: TrainConfig) -> None:
    """The run begins: its settings are there from now on, and what an interruption left is not."""
    out = Path(config.out)
    remove_incomplete(out)
    unfinished = out / f".{SETTINGS_NAME}.tmp"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(config)))
    unfinished.replace(out / SETTINGS_NAME)


class RunFiles:
    """The files that grow with a run."""

    def __init__(self, out: Path, last_step: int) -> None:
        """Go on after `last_step`: lines of later steps are dropped."""
        names = ("metrics", "evaluations", "samples", "rewards_errors")
        paths = [out / f"{name}.jsonl" for name in names]
        for path in paths:
            cut_after(path, last_step)
        self.metrics, self.evaluations, self.samples, self.reward_errors = (
            JsonLines(path) for path in paths
        )

    def sync(self) -> None:
        """Bring everything to the disk."""
        for file in (self.metrics, self.evaluations, self.samples, self.reward_errors):
            file.sync()

    def close(self) -> None:
        """Close all files."""
        for file in (self.metrics, self.evaluations, self.samples, self.reward_errors):
            file.close()


def _checkpoint_to_resume(out: Path, config: TrainConfig) -> Checkpoint | None:
    settings = out / SETTINGS_NAME
    if not config.resume:
        if any(path.name != REWARD_LOG_NAME for path in out.iterdir()):
            hint = "or --resume to go on with its run" if settings.exists() else "or another one"
            raise InvalidInput("out", config.out, f"allowed: an empty directory, {hint}")
        return None
    checkpoints = complete_checkpoints(out)
    if checkpoints:
        newest = checkpoints[-1]
        check_same(newest.config, config)
        if config.steps < newest.step:
            allowed = f"allowed: at least {newest.step}, the steps of {newest.path}"
            raise InvalidInput("steps", config.steps, allowed)
        return newest
    if not settings.exists():
        allowed = f"allowed: a directory with a checkpoint or {SETTINGS_NAME} in it"
        raise InvalidInput("resume", config.out, allowed)
    check_same(_read_settings(settings), config)
    return None


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput("resume", str(path), f"allowed: settings of a run ({error})") from error
