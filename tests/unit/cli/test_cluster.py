"""The flags of a cluster, and `seer cluster` where there is none."""

import importlib.util
from pathlib import Path

import pytest

from seer.cli.main import run
from seer.cli.settings import RolloutSettings
from seer.cluster import ray_cluster
from seer.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "value"),
    [("ray_address", "head:6379"), ("instance_gpus", 1.0), ("pool_nodes", 2), ("max_instances", 4)],
)
def test_what_only_a_cluster_reads_is_refused_without_one(name: str, value: object) -> None:
    """It would be ignored otherwise."""
    with pytest.raises(InvalidInput, match=f"{name}: got .*allowed with --cluster ray"):
        RolloutSettings(prompts="p.jsonl", **{name: value})  # type: ignore[arg-type]
    RolloutSettings(prompts="p.jsonl", cluster="ray", **{name: value})  # type: ignore[arg-type]


def test_without_ray_the_user_is_told_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with the exit code of bad input."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r"pip install 'seer-rl\[ray\]'"):
        ray_cluster.require_ray()
    assert run(["cluster", "up"]) == 2
    assert "Ray is not installed" in capsys.readouterr().err


def test_down_and_status_without_a_trial_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They say so."""
    pytest.importorskip("ray")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert run(["cluster", "down"]) == 0
    assert run(["cluster", "status"]) == 0
    assert capsys.readouterr().out.count("no trial cluster runs") == 2
