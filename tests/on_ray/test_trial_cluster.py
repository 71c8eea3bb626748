"""`seer cluster up`, `status` and `down`, and a rollout on what is up."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("ray")

from seer.cli.main import run
from seer.cluster import trial
from seer.cluster.ray_cluster import RayCluster
from seer.engines.process import ProcessSpec
from seer.engines.scripted import ScriptedSpec
from seer.rollout.config import RolloutConfig
from seer.rollout.rollout import Rollout
from seer.types import SamplingParams


def test_a_trial_cluster_from_up_to_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A second one is refused; after its end nothing is left to show."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    try:
        assert run(["cluster", "up", "--cpus", "3"]) == 0
        running = trial.status()
        assert running is not None
        assert f"--ray-address {running.ray_address}" in capfd.readouterr().out
        assert run(["cluster", "up"]) == 2
        assert "one runs already" in capfd.readouterr().err
        assert run(["cluster", "status"]) == 0
        assert "1 nodes; free on each:\n  3 CPUs and 0 GPUs" in capfd.readouterr().out
        asyncio.run(_rollout(running.ray_address))
    finally:
        assert run(["cluster", "down"]) == 0
    assert not running.is_alive
    assert trial.status() is None
    assert run(["cluster", "down"]) == 0
    assert "no trial cluster runs" in capfd.readouterr().out


async def _rollout(address: str) -> None:
    config = RolloutConfig(
        engine=ProcessSpec(inner=ScriptedSpec()), site=RayCluster(address=address)
    )
    async with Rollout(config) as rollout:
        groups = await rollout.generate(["A prompt"], group_size=2, sampling=SamplingParams())
    assert len(groups[0].completions) == 2
