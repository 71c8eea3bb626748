"""`seer check` on the command line: what it refuses, and what its settings become."""

from pathlib import Path

import pytest

from seer.cli.check import CheckSettings
from seer.cli.main import EXIT_BAD_INPUT, run
from seer.errors import InvalidInput


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--arms", "plain,fast"], "arms"),
        (["--temperature", "0"], "temperature"),
        (["--drafting", "off"], "drafting"),
        (["--drafting", "fixed:0"], "drafting"),
        (["--seeds", "0"], "seeds"),
        (["--false-alarm", "1"], "false_alarm"),
        (["--false-alarm", "nan"], "false_alarm"),
        (["--json", "no/such/place.json"], "json"),
        (["--chunk-size", "0"], "chunk_size"),
        (["--engine", "sglang"], "engine"),
        (["--dtype", "float8"], "dtype"),
        (["--model", "no/such/model"], "model"),
    ],
)
def test_bad_input_is_named_before_anything_starts(
    flags: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the field, the value and what is allowed; exit code 2."""
    assert run(["check", *flags]) == EXIT_BAD_INPUT
    assert capsys.readouterr().err.startswith(f"seer: {named}: got")


def test_settings_become_a_plan() -> None:
    """What is sampled is what the flags say, seed included."""
    plan = CheckSettings(temperature=1.0, top_p=0.9, seed=7, seeds=3, drafting="seer").plan
    assert (plan.sampling.temperature, plan.sampling.top_p, plan.sampling.seed) == (1.0, 0.9, 7)
    assert (plan.num_seeds, plan.drafting) == (3, "seer")


def test_a_file_of_settings_is_taken(tmp_path: Path) -> None:
    """The names are those of the flags."""
    file = tmp_path / "check.toml"
    file.write_text('arms = "plain,plain"\n')
    assert run(["check", "--config", str(file)]) == EXIT_BAD_INPUT
    with pytest.raises(InvalidInput, match="arms"):
        CheckSettings(arms="plain,plain")
