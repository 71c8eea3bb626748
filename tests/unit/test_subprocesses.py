"""How children of ours are started."""

import subprocess
import sys
from pathlib import Path

import pytest

from seer.subprocesses import child_command, child_environment, private_directory


def test_a_private_directory_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the directory for temporary files."""
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    directory = private_directory()
    if len(str(directory)) <= 90:
        assert directory.parent == place
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.rmdir()


def test_a_socket_fits_where_temporary_files_lie_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is elsewhere, and nothing is left behind."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    directory = private_directory()
    assert len(str(directory)) <= 90
    assert list(deep.iterdir()) == []
    directory.rmdir()


def test_a_child_finds_what_we_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules on our import path, even one that was put there at run time."""
    (tmp_path / "only_here.py").write_text("import os; print(os.environ['EXTRA'])")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    done = subprocess.run(
        child_command("only_here"),
        env=child_environment({"EXTRA": "1"}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
