"""Each example does what its first lines say, run as a user runs it, in an empty directory."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.model


def run(directory: Path, name: str, *arguments: str) -> str:
    """Output of an example; what it writes is removed again, since models are large."""
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=directory,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(directory / "out", ignore_errors=True)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return ended.stdout


def test_minimal(tmp_path: Path) -> None:
    """Three questions, four responses each, and the figures."""
    output = run(tmp_path, "minimal.py")
    assert output.count("  ->  ") == 12
    assert "num_requests=12" in output


def test_best_of_n(tmp_path: Path) -> None:
    """The best of 16 responses to each of four questions, and how many were right."""
    output = run(tmp_path, "best_of_n.py")
    assert len(re.findall(r"\d+/16 right; best: ", output)) == 4


def test_resume(tmp_path: Path) -> None:
    """Killed before it was over, and the same in the end."""
    output = run(tmp_path, "resume.py")
    assert re.search(r"killed with [12] of 3 groups finished", output)
    assert "the same texts as without the kill: True" in output


def test_custom_reward(tmp_path: Path) -> None:
    """Two steps with a reward of the example's own."""
    pytest.importorskip("trl")
    pytest.importorskip("reasoning_gym")
    output = run(tmp_path, "custom_reward.py")
    rewards = re.findall(r"step (\d): reward (\d\.\d+)", output)
    assert [step for step, _ in rewards] == ["1", "2"]
    assert all(float(reward) > 0 for _, reward in rewards)
    assert "trained model: out/custom_reward/model" in output


def test_trl_grpo(tmp_path: Path) -> None:
    """One step of TRL's trainer; both sides agree on the log-probabilities."""
    pytest.importorskip("trl")
    pytest.importorskip("reasoning_gym")
    output = run(tmp_path, "trl_grpo.py", "1")
    found = re.search(r"'seer/logprob_difference/max': ([\d.e-]+)", output)
    assert found is not None
    assert float(found[1]) < 1e-4
