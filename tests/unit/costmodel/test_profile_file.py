"""Profiles as files: what was written is read, what contradicts itself is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seer.costmodel.points import PrefillPoint, StepPoint
from seer.costmodel.profile_file import (
    KVCopySpeed,
    Profile,
    ProfiledEngine,
    make_profile,
    read_profile,
    write_profile,
)
from seer.errors import InvalidInput

ENGINE = ProfiledEngine(
    model="m", dtype="bfloat16", device="cpu", threads=1, machine="a", date="2026-12-02"
)


def made() -> Profile:
    """A profile of an engine with round numbers."""
    points = tuple(
        StepPoint(
            num_requests=n,
            num_tokens=n,
            context_tokens=n * context,
            seconds=0.01 + n * 1e-3 + n * context * 1e-6,
        )
        for n in (1, 2, 4, 8)
        for context in (100, 1000)
    )
    prefills = (PrefillPoint(num_tokens=100, context_tokens=0, seconds=0.05),)
    return make_profile(
        ENGINE, points, prefills, KVCopySpeed(export_bytes_per_s=1e9, load_bytes_per_s=2e9)
    )


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A profile file after someone edited it."""
    write_profile(path, made())
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Points, coefficients, errors and speeds survive the file."""
    write_profile(tmp_path / "p.json", made())
    assert read_profile(tmp_path / "p.json") == made()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(InvalidInput, match=r"none\.json.*readable"):
        read_profile(tmp_path / "none.json")


def test_a_directory_is_no_place_to_write(tmp_path: Path) -> None:
    """The message says what would do."""
    with pytest.raises(InvalidInput, match="a writable file"):
        write_profile(tmp_path, made())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c.update(speed=3), "speed"),
        (lambda c: c.pop("errors"), "errors"),
        (lambda c: c["points"][2].update(second=1), "second"),
        (lambda c: c["points"][2].update(seconds="fast"), r"points\[2\]\.seconds|seconds"),
        (lambda c: c["points"][2].update(seconds=-1.0), "points"),
        (lambda c: c.update(points=c["points"][:3]), "points"),
        (lambda c: c["points"].append(c["points"][0] | {"seconds": 9.0}), "same work"),
        (lambda c: c["step_time"].update(fixed_s=-1.0), "fixed_s"),
        (lambda c: c["step_time"].update(fixed_s=0.5), "step_time contradicts its points"),
        (lambda c: c["step_time"].update(prefill_per_token_s=1.0), "max_prefill"),
        (lambda c: c["points"][0].update(seconds=0.015), "step_time contradicts its points"),
    ],
)
def test_broken_files_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    """Unknown, missing, impossible and contradictory fields are named, with the file."""
    path = changed(tmp_path / "p.json", change)
    with pytest.raises(InvalidInput, match=named) as caught:
        read_profile(path)
    assert caught.value.value == str(path)


def test_text_that_is_no_json(tmp_path: Path) -> None:
    """The message names the file."""
    path = tmp_path / "p.json"
    path.write_text("seconds: 3")
    with pytest.raises(InvalidInput, match=r"p\.json"):
        read_profile(path)
