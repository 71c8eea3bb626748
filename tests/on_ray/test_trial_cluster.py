"""`seer cluster up`, `status` and `down`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")


def test_a_trial_cluster_from_up_to_down(tmp_path: Path) -> None:
    """A second one is refused; after its end nothing is left to show.

    Each command is a process: Ray reads its token from the home directory once a process.
    """
    environment = {**os.environ, "HOME": str(tmp_path)}
    environment.pop("RAY_ADDRESS", None)

    def seer(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "seer.cli.main", "cluster", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    try:
        up = seer("up", "--cpus", "3")
        assert up.returncode == 0, up.stderr
        assert (
            "try next: RAY_AUTH_MODE=token seer rollout --cluster ray --ray-address " in up.stdout
        )
        again = seer("up")
        assert again.returncode == 2
        assert "one runs already" in again.stderr
        status = seer("status")
        assert status.returncode == 0, status.stderr
        assert "1 nodes; free on each:\n  3 CPUs and 0 GPUs" in status.stdout
    finally:
        down = seer("down")
    assert (down.returncode, down.stdout) == (0, "ended\n")
    assert "no trial cluster runs" in seer("status").stdout
