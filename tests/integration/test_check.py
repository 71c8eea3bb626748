"""`seer check` from end to end, with the local engine and a tiny model."""

import json
from pathlib import Path

import pytest

from seer.cli.main import EXIT_FAILED, run
from support.tiny_tokenizer import make_tiny_model_directory

FAST = ["--dtype", "float32", "--temperature", "0.5", "--seeds", "3", "--group-size", "8"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model_directory(tmp_path_factory.mktemp("model")))


def test_the_local_engine_passes(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All three arms draw from the model's distribution; drafts are accepted, requests move."""
    out = tmp_path / "check.json"
    assert run(["check", "--model", model, *FAST, "--json", str(out)]) == 0
    assert "passed" in capsys.readouterr().out
    arms = {arm["arm"]: arm for arm in json.loads(out.read_text())["arms"]}
    assert list(arms) == ["plain", "drafts", "moves"]
    assert arms["drafts"]["num_accepted"] > 0
    assert arms["moves"]["num_moves"] > 0
    assert max(arm["largest_gap"] for arm in arms.values()) < 1e-4


def test_a_check_that_tests_nothing_fails(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Responses of one chunk never move."""
    flags = ["--arms", "moves", "--max-tokens", "8", "--chunk-size", "8"]
    assert run(["check", "--model", model, *FAST, *flags]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert "nothing is known of moves" in captured.out
    assert "do not train on them" in captured.err
