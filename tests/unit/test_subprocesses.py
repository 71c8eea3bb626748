"""How children of ours are started."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seer.engines.child import Child
from seer.subprocesses import child_command, child_environment, private_directory

STARTS_ANOTHER = """
import subprocess, sys, time
from pathlib import Path
from seer.subprocesses import end_with_owner
place = sys.stdin.readline().strip()
end_with_owner()
Path(place).write_text(str(subprocess.Popen(["sleep", "600"]).pid))
time.sleep(600)
"""
"""A child whose own child knows nothing of us."""


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


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "owner-gone"])
def test_a_child_takes_its_own_children_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_killed: bool
) -> None:
    """By SIGKILL, or when its owner ends: nothing that it started stays."""
    (tmp_path / "starts_another.py").write_text(STARTS_ANOTHER)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    place = tmp_path / "pid"

    async def end() -> None:
        hello = str(place).encode()
        child = await Child.start("starts_another", private_directory(), hello, {})
        await asyncio.to_thread(_wait_for_text, place)
        if is_killed:
            child.kill()
        else:
            assert child._process.stdin is not None
            child._process.stdin.close()
        await child.wait()
        child.release()

    asyncio.run(end())
    grandchild = Path("/proc") / place.read_text()
    deadline = time.monotonic() + 20
    while grandchild.exists() and "State:\tZ" not in (grandchild / "status").read_text():
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.02)


def _wait_for_text(place: Path) -> None:
    while not (place.exists() and place.read_text()):
        time.sleep(0.02)
