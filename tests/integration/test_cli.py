"""`seer rollout` and `seer bench`, end to end, on a tiny model in real processes."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

pytest.importorskip("transformers")

from seer.cli.completions import Completion
from seer.cli.journal import JOURNAL_NAME
from seer.rollout.trace import replay
from support.tiny_tokenizer import make_tiny_model_directory

NUM_PROMPTS = 6
TEXT_COLUMNS = ("prompt_id", "member", "output_token_ids", "text", "finish_reason")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model and prompts for it."""
    directory = tmp_path_factory.mktemp("inputs")
    make_tiny_model_directory(directory / "model")
    rows = [{"prompt": f"Prompt number {i}", "id": f"p{i}", "n": i} for i in range(NUM_PROMPTS)]
    lines = "\n".join(json.dumps(row) for row in rows)
    (directory / "prompts.jsonl").write_text(lines, encoding="utf-8")
    return directory


def command(inputs: Path, name: str, *flags: str) -> list[str]:
    given = ["--prompts", str(inputs / "prompts.jsonl"), "--model", str(inputs / "model")]
    given += ["--dtype", "float32", "--group-size", "4", "--kv-tokens", "1024"]
    return [sys.executable, "-m", "seer.cli.main", name, *given, *flags]


def read(path: Path) -> list[Completion]:
    return [msgspec.json.decode(line, type=Completion) for line in path.open("rb")]


def texts(rows: list[Completion]) -> list[tuple[object, ...]]:
    return [tuple(getattr(row, name) for name in TEXT_COLUMNS) for row in rows]


def test_rollout_writes_completions_trace_and_summary(inputs: Path, tmp_path: Path) -> None:
    """Rows in the order of the prompts with their metadata, a trace that replays, a summary."""
    out = tmp_path / "out"
    flags = ["--max-tokens", "40", "--chunk-size", "16", "--out", str(out)]
    done = subprocess.run(
        command(inputs, "rollout", *flags), capture_output=True, text=True, check=True
    )
    rows = pq.read_table(out / "completions.parquet").to_pylist()
    assert [(row["prompt_id"], row["member"]) for row in rows] == [
        (f"p{i}", member) for i in range(NUM_PROMPTS) for member in range(4)
    ]
    assert [json.loads(row["metadata"]) for row in rows[::4]] == [{"n": i} for i in range(6)]
    for row in rows:
        assert 1 <= len(row["output_token_ids"]) == len(row["logprobs"]) <= 40
        assert 0 <= row["started_s"] < row["finished_s"]
    assert replay(out / "trace.jsonl") > 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["num_completions"] == 24
    assert summary["metrics"]["preemptions"] == 0
    assert not (out / JOURNAL_NAME).exists()
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "made",
        "speed",
        "try next",
    ]
    assert f"groups {NUM_PROMPTS}/{NUM_PROMPTS}" in done.stderr


def test_interrupted_rollout_resumes_to_the_same_texts(inputs: Path, tmp_path: Path) -> None:
    """Ctrl-C keeps finished groups, says what is missing, exits 130; --resume makes the rest."""
    flags = ["--max-tokens", "150", "--ignore-eos", "--max-running", "2"]
    flags += ["--format", "jsonl"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(inputs, "rollout", *flags, "--out", str(whole)), check=True)
    interrupted = subprocess.Popen(
        command(inputs, "rollout", *flags, "--out", str(broken)), stderr=subprocess.PIPE, text=True
    )
    wait_for_group(broken / JOURNAL_NAME, interrupted)
    interrupted.send_signal(signal.SIGINT)
    _, said = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert "missing: p" in said
    assert "--resume" in said
    assert not (broken / "completions.jsonl").exists()
    subprocess.run(command(inputs, "rollout", *flags, "--out", str(broken), "--resume"), check=True)
    resumed, undisturbed = read(broken / "completions.jsonl"), read(whole / "completions.jsonl")
    assert texts(resumed) == texts(undisturbed)
    for row, other in zip(resumed, undisturbed, strict=True):
        # Drafts change how many rows a step computes together, and with it the rounding.
        assert row.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert json.loads((broken / "summary.json").read_text())["num_resumed_groups"] >= 1
    assert (broken / "trace-2.jsonl").exists()


def wait_for_group(journal: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the journal holds its header and a group."""
    deadline = time.monotonic() + 60
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_bench_compares_policies(inputs: Path, tmp_path: Path) -> None:
    """One JSON row a policy and repeat; in float32 every policy gives the same responses."""
    rows_path = tmp_path / "rows.jsonl"
    flags = ["--policies", "group_round_robin,divided", "--repeats", "2", "--max-tokens", "24"]
    done = subprocess.run(
        command(inputs, "bench", *flags, "--json", str(rows_path)),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in rows_path.open(encoding="utf-8")]
    assert [(row["policy"], row["repeat"]) for row in rows] == [
        ("group_round_robin", 0),
        ("divided", 0),
        ("group_round_robin", 1),
        ("divided", 1),
    ]
    assert all(row["differing_requests"] == 0 for row in rows)
    assert rows[0]["ratio_to_first"] == 1.0
    assert rows[0]["output_tokens"] == rows[1]["output_tokens"] > 0
    assert "all rollouts gave the same 24 responses" in done.stdout
