"""Bad input on the command line: one line on stderr that names it, exit code 2, no model loaded."""

import json
import os
from pathlib import Path

import pytest

from seer.cli.main import run

pytest.importorskip("transformers")

from support.tiny_tokenizer import make_tiny_model_directory


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model_directory(tmp_path_factory.mktemp("model")))


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "Hi"}\n', encoding="utf-8")
    return str(path)


def foreign_model(directory: Path, **changes: object) -> str:
    """A model directory whose configuration is not one of ours."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"model_type": "gpt2"} | changes))
    return str(directory)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr that a command ends with."""
    assert run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--group-size", "0"], "group_size: got 0; allowed"),
        (["--num-prompts", "x"], "num_prompts: got 'x'; allowed: a whole number"),
        (["--num-prompts", "0"], "num_prompts: got 0; allowed"),
        (["--num-prompts", "2"], "num_prompts: got 2; allowed"),
        (["--instances", "0"], "instances: got 0; allowed"),
        (["--max-running", "0"], "max_running: got 0; allowed"),
        (["--chunk-size", "-1"], "chunk_size: got -1; allowed"),
        (["--pool-bytes", "-1"], "pool_bytes: got -1; allowed"),
        (["--temperature", "nan"], "temperature: got nan; allowed"),
        (["--temperature", "-0.5"], "temperature: got -0.5; allowed"),
        (["--top-p", "0"], "top_p: got 0.0; allowed"),
        (["--max-tokens", "0"], "max_tokens: got 0; allowed"),
        (["--seed", "-1"], "seed: got -1; allowed"),
        (["--stop", ""], "stop: got ('',); allowed"),
        (["--policy", "fastest"], "policy: got 'fastest'; allowed"),
        (["--dtype", "float16"], "dtype: got 'float16'; allowed"),
        (["--device", "tpu"], "device: got 'tpu'; allowed"),
        (["--logprobs", "none"], "logprobs: got 'none'; allowed: one of raw, processed"),
        (["--drafting", "fixed:33"], "drafting: got 'fixed:33'; allowed"),
        (["--format", "csv"], "format: got 'csv'; allowed"),
        (["--group-size", "many"], "group_size: got 'many'; allowed: a whole number"),
        (["--frobnicate"], "frobnicate"),
        (["--policy", "interleaved", "--chunk-size", "8"], "chunk_size: got 8; allowed"),
        (["--pool-bytes", "0", "--pool-disk-bytes", "9"], "pool_disk_bytes: got 9; allowed"),
        (["--resume"], "resume"),
        (["--prompts", "reasoning-gym:no_such_task"], "no_such_task"),
        (["--prompts", "none.jsonl"], "prompts: got 'none.jsonl'; allowed"),
        (["--config", "none.toml"], "config: got 'none.toml'; allowed"),
    ],
)
def test_bad_flag(  # noqa: PLR0917 - fixtures
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    prompts: str,
    model: str,
    flags: list[str],
    named: str,
) -> None:
    """Each bad flag is named with its value and what is allowed."""
    out = str(tmp_path / "out")
    given = ["rollout", "--prompts", prompts, "--model", model, "--out", out, *flags]
    assert named in refused(capsys, *given)


def test_prompts_are_required(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The one setting without a default is asked for."""
    assert "prompts: got None" in refused(capsys, "rollout", "--out", str(tmp_path / "out"))


def test_half_written_jsonl_names_the_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The line that cannot be read is named."""
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "Hi"}\n{"prom', encoding="utf-8")
    line = refused(capsys, "rollout", "--prompts", str(path), "--out", str(tmp_path / "out"))
    assert f"{path}:2" in line


@pytest.mark.parametrize("kind", ["missing", "empty", "foreign", "broken"])
def test_foreign_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prompts: str, kind: str
) -> None:
    """Missing and foreign directories, and unsupported architectures, are refused by name."""
    directory = tmp_path / kind
    match kind:
        case "empty":
            directory.mkdir()
        case "foreign":
            foreign_model(directory)
        case "broken":
            directory.mkdir()
            (directory / "config.json").write_text("{")
    out = str(tmp_path / "out")
    given = ["rollout", "--prompts", prompts, "--model", str(directory), "--out", out]
    assert f"model: got '{directory}'" in refused(capsys, *given)


def test_prompt_longer_than_the_context(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str
) -> None:
    """A prompt that leaves no room in the context is named by its id."""
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps({"prompt": "x" * 600, "id": "long"}), encoding="utf-8")
    out = str(tmp_path / "out")
    line = refused(capsys, "rollout", "--prompts", str(path), "--model", model, "--out", out)
    assert "prompt long of 600 tokens" in line
    assert "context of 512" in line


def test_limit_beyond_the_context(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prompts: str, model: str
) -> None:
    """Prompt and limit together must fit the context."""
    given = ["--model", model, "--out", str(tmp_path / "out"), "--max-tokens", "600"]
    assert "max_tokens: got" in refused(capsys, "rollout", "--prompts", prompts, *given)


def test_kv_budget_too_small_for_one_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prompts: str, model: str
) -> None:
    """An instance must hold one request up to its limit."""
    given = ["--model", model, "--out", str(tmp_path / "out"), "--kv-tokens", "64"]
    line = refused(capsys, "rollout", "--prompts", prompts, *given, "--max-tokens", "128")
    assert "kv_tokens: got 64; allowed: at least 192" in line


def test_token_id_outside_the_vocabulary(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str
) -> None:
    """A token id that the model does not have is named."""
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": [1, 160]}', encoding="utf-8")
    out = str(tmp_path / "out")
    line = refused(capsys, "rollout", "--prompts", str(path), "--model", model, "--out", out)
    assert "160" in line


def test_used_out_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prompts: str
) -> None:
    """Results never mix with other files."""
    line = refused(capsys, "rollout", "--prompts", prompts, "--out", str(tmp_path))
    assert f"out: got '{tmp_path}'; allowed: an empty directory" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_out_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prompts: str
) -> None:
    """A directory without write permission is refused before anything runs."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert "writable" in refused(capsys, "rollout", "--prompts", prompts, "--out", str(locked))


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--policies", "divided,fastest"], "policy: got 'fastest'"),
        (["--policies", "divided,divided"], "policies: got"),
        (["--drafting", "off,off"], "drafting: got 'off,off'"),
        (["--drafting", "off,4"], "drafting: got '4'"),
        (["--repeats", "0"], "repeats: got 0"),
        (["--json", "/proc/none/rows.jsonl"], "json: got"),
    ],
)
def test_bad_bench_flag(
    capsys: pytest.CaptureFixture[str], prompts: str, model: str, flags: list[str], named: str
) -> None:
    """`seer bench` refuses likewise."""
    assert named in refused(capsys, "bench", "--prompts", prompts, "--model", model, *flags)
