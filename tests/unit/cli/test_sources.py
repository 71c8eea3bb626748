"""Settings from flags, TOML and defaults."""

from pathlib import Path

import pytest

from seer.cli.settings import BenchSettings, RolloutSettings
from seer.cli.sources import load_settings
from seer.errors import InvalidInput

FLAGS: dict[str, object] = {"prompts": "p.jsonl"}


def toml(path: Path, text: str) -> Path:
    file = path / "seer.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    """A value is taken from the first of flags, file and defaults that has it."""
    config = toml(tmp_path, 'prompts = "q.jsonl"\nseed = 4\nkv_tokens = 1024\n')
    settings = load_settings(RolloutSettings, {"seed": 5, "kv_tokens": None}, config)
    assert (settings.prompts, settings.seed, settings.kv_tokens) == ("q.jsonl", 5, 1024)
    assert settings.group_size == 8


def test_one_file_serves_both_commands(tmp_path: Path) -> None:
    """What only the other command reads is left out."""
    config = toml(tmp_path, 'prompts = "q.jsonl"\nout = "x"\nrepeats = 2\n')
    assert load_settings(BenchSettings, {}, config).repeats == 2
    assert load_settings(RolloutSettings, {}, config).out == "x"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("group_sise = 3", "group_sise"),
        ('group_size = "many"', "group_size"),
        ("temperature = [1]", "temperature"),
        ("group_size =", "seer.toml"),
    ],
)
def test_bad_file_names_the_key(tmp_path: Path, text: str, named: str) -> None:
    """Unknown keys, foreign types and broken TOML are refused by name."""
    with pytest.raises(InvalidInput) as caught:
        load_settings(RolloutSettings, FLAGS, toml(tmp_path, text))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """A config file that is not there is named."""
    with pytest.raises(InvalidInput, match=r"config: got .*none\.toml"):
        load_settings(RolloutSettings, FLAGS, tmp_path / "none.toml")


def test_prompts_are_required() -> None:
    """Prompts are the one setting without a default."""
    with pytest.raises(InvalidInput, match="prompts: got None"):
        load_settings(RolloutSettings, {}, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("group_size", 0),
        ("num_prompts", 0),
        ("max_running", 0),
        ("format", "csv"),
    ],
)
def test_bad_value_is_named(field: str, value: object) -> None:
    """Values out of range are refused with their field."""
    with pytest.raises(InvalidInput, match=f"^{field}: got {value!r}; allowed"):
        load_settings(RolloutSettings, FLAGS | {field: value}, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", float("nan")), ("temperature", -1.0), ("top_p", 0.0), ("max_tokens", 0)],
)
def test_bad_sampling_is_named(field: str, value: float) -> None:
    """Sampling values are refused by the parameters that own them."""
    with pytest.raises(InvalidInput, match=f"^{field}: got"):
        _ = load_settings(RolloutSettings, FLAGS | {field: value}, None).sampling


@pytest.mark.parametrize(
    "flags",
    [
        {"policy": "interleaved", "chunk_size": 16},
        {"policy": "group_round_robin", "max_spread": 1},
        {"pool_bytes": 0, "pool_disk_bytes": 1 << 20},
    ],
)
def test_contradictory_flags_are_refused(flags: dict[str, object]) -> None:
    """Settings that could have no effect beside others are refused."""
    with pytest.raises(InvalidInput, match="allowed"):
        load_settings(RolloutSettings, FLAGS | flags, None)


@pytest.mark.parametrize("policies", ["", "divided,", "divided,divided"])
def test_bench_policies_are_different_names(policies: str) -> None:
    """An empty or repeated name is refused."""
    with pytest.raises(InvalidInput, match="policies"):
        load_settings(BenchSettings, FLAGS | {"policies": policies}, None)


def test_bench_repeats_at_least_once() -> None:
    """Zero repeats would measure nothing."""
    with pytest.raises(InvalidInput, match="repeats: got 0"):
        load_settings(BenchSettings, FLAGS | {"repeats": 0}, None)
