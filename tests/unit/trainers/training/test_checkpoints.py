"""Checkpoints count when complete; files and settings of a run that is resumed."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from seer.errors import InvalidInput
from seer.trainers.training.checkpoints import (
    MARKER_NAME,
    check_same,
    complete_checkpoints,
    keep_newest,
    mark_complete,
    remove_incomplete,
)
from seer.trainers.training.config import MAY_DIFFER, TaskConfig, TrainConfig
from seer.trainers.training.jsonl import JsonLines, cut_after
from seer.trainers.training.out_dir import (
    SETTINGS_NAME,
    RunFiles,
    claim_out_dir,
    open_out_dir,
)
from unit.trainers.training.fakes import sample

CONFIG = TrainConfig(tasks=[TaskConfig(name="chain_sum")])


def config(out: Path, **settings: Any) -> TrainConfig:
    return msgspec.structs.replace(CONFIG, out=str(out), **settings)


def write_checkpoint(out: Path, step: int, *, complete: bool = True) -> Path:
    directory = out / f"checkpoint-{step}"
    (directory / "part").mkdir(parents=True)
    (directory / "model.safetensors").write_bytes(b"x" * step)
    (directory / "part" / "optimizer.pt").write_bytes(b"y")
    if complete:
        mark_complete(directory, step, config(out))
    return directory


def steps(out: Path) -> list[int]:
    return [checkpoint.step for checkpoint in complete_checkpoints(out)]


def test_a_checkpoint_without_marker_does_not_count(tmp_path: Path) -> None:
    """What a kill leaves while writing is no checkpoint, and is removed."""
    write_checkpoint(tmp_path, 10)
    unfinished = write_checkpoint(tmp_path, 20, complete=False)
    assert steps(tmp_path) == [10]
    remove_incomplete(tmp_path)
    assert not unfinished.exists()
    assert steps(tmp_path) == [10]


@pytest.mark.parametrize("damage", ["shorter", "missing", "marker"])
def test_a_damaged_checkpoint_does_not_count(tmp_path: Path, damage: str) -> None:
    """A file that is shorter or gone, or a marker cut short: the one before it is the newest."""
    write_checkpoint(tmp_path, 10)
    directory = write_checkpoint(tmp_path, 20)
    match damage:
        case "shorter":
            (directory / "model.safetensors").write_bytes(b"x")
        case "missing":
            (directory / "part" / "optimizer.pt").unlink()
        case "marker":
            (directory / MARKER_NAME).write_text("{")
    assert steps(tmp_path) == [10]


def test_checkpoints_are_ordered_by_step(tmp_path: Path) -> None:
    """The newest is that of the largest step, and the newest ones stay."""
    for step in (100, 9, 20):
        write_checkpoint(tmp_path, step)
    assert steps(tmp_path) == [9, 20, 100]
    keep_newest(tmp_path, 2)
    assert steps(tmp_path) == [20, 100]
    assert not (tmp_path / "checkpoint-9").exists()


def test_every_differing_setting_is_named() -> None:
    """A checkpoint of another run is refused with what differs, and what might."""
    stored = msgspec.to_builtins(CONFIG) | {"learning_rate": 0.5, "seed": 3, "steps": 7}
    with pytest.raises(InvalidInput) as caught:
        check_same(stored, CONFIG)
    message = str(caught.value)
    assert "learning_rate 0.00001, seed 0" in message
    assert "learning_rate 0.5, seed 3" in message
    assert ", ".join(sorted(MAY_DIFFER)) in message
    assert "steps 7" not in message


def test_a_setting_that_was_not_known_then_is_named() -> None:
    """A checkpoint of a version with other settings is compared, not dropped."""
    stored = msgspec.to_builtins(CONFIG)
    del stored["beta"]
    with pytest.raises(InvalidInput, match=r"beta 0\.0.*beta null"):
        check_same(stored, CONFIG)


class TestOutDir:
    def test_a_new_run_needs_an_empty_directory(self, tmp_path: Path) -> None:
        """A directory with a run in it is refused, and --resume named."""
        assert open_out_dir(config(tmp_path)) is None
        assert open_out_dir(config(tmp_path)) is None
        claim_out_dir(config(tmp_path))
        with pytest.raises(InvalidInput, match="--resume"):
            open_out_dir(config(tmp_path))

    def test_resume_goes_on_from_the_newest_checkpoint(self, tmp_path: Path) -> None:
        """The newest complete one; incomplete ones are removed."""
        write_checkpoint(tmp_path, 10)
        write_checkpoint(tmp_path, 20, complete=False)
        checkpoint = open_out_dir(config(tmp_path, resume=True, steps=500))
        assert checkpoint is not None
        assert checkpoint.step == 10
        claim_out_dir(config(tmp_path, resume=True))
        assert not (tmp_path / "checkpoint-20").exists()

    def test_resume_of_a_run_without_checkpoint_starts_again(self, tmp_path: Path) -> None:
        """A run killed before its first checkpoint starts from the beginning, if it is the same."""
        claim_out_dir(config(tmp_path))
        assert open_out_dir(config(tmp_path, resume=True)) is None
        with pytest.raises(InvalidInput, match="seed 4"):
            open_out_dir(config(tmp_path, resume=True, seed=4))

    def test_resume_needs_a_run(self, tmp_path: Path) -> None:
        """An empty directory has nothing to resume, broken settings neither."""
        with pytest.raises(InvalidInput, match="resume: got"):
            open_out_dir(config(tmp_path, resume=True))
        (tmp_path / SETTINGS_NAME).write_text("{")
        with pytest.raises(InvalidInput, match="resume: got"):
            open_out_dir(config(tmp_path, resume=True))

    def test_fewer_steps_than_were_made(self, tmp_path: Path) -> None:
        """A resumed run cannot end before it begins."""
        write_checkpoint(tmp_path, 10)
        with pytest.raises(InvalidInput, match="steps: got 5; allowed: at least 10"):
            open_out_dir(config(tmp_path, resume=True, steps=5))

    def test_a_file_is_no_directory(self, tmp_path: Path) -> None:
        """Results need a directory."""
        (tmp_path / "file").touch()
        with pytest.raises(InvalidInput, match="out: got"):
            open_out_dir(config(tmp_path / "file"))


def test_lines_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    """A resumed run writes the steps after its checkpoint again; a half line goes too."""
    path = tmp_path / "samples.jsonl"
    lines = JsonLines(path)
    for step in (1, 2, 3):
        lines.append(msgspec.structs.replace(sample("a", 1.0, 5), step=step))
    lines.close()
    with path.open("ab") as file:
        file.write(b'{"step": 2, "re')
    cut_after(path, 2)
    files = RunFiles(tmp_path, 2)
    files.samples.append(msgspec.structs.replace(sample("a", 0.0, 5), step=3))
    files.sync()
    files.close()
    found = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert [(each["step"], each["reward"]) for each in found] == [(1, 1.0), (2, 1.0), (3, 0.0)]
