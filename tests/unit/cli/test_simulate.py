from pathlib import Path

import msgspec
import pytest

from seer.cli.main import EXIT_BAD_INPUT, run
from seer.costmodel.points import PrefillPoint, StepPoint
from seer.costmodel.profile_file import (
    KVCopySpeed,
    Profile,
    ProfiledEngine,
    make_profile,
    write_profile,
)
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import ChunkFinished
from seer.rollout.trace import TraceRecord, TraceWriter, replay
from seer.simulator.experiment import SimulationRow
from seer.types import ChunkEnd, ChunkStats, InstanceLoad, RequestId

KEYS = {
    "workload",
    "policy",
    "group_size",
    "drafting",
    "seed",
    "throughput_tokens_per_s",
    "total_time_s",
    "tail_time_s",
    "preemptions",
    "ratio_to_group_round_robin",
    "ratio_to_oracle",
    "lower_bound_s",
}


@pytest.fixture
def lengths(tmp_path: Path) -> str:
    """A small file of real-looking lengths."""
    path = tmp_path / "lengths.jsonl"
    rows = [
        {"group": group, "member": member, "length": 40 + 37 * (group % 5) + 11 * member}
        for group in range(12)
        for member in range(4)
    ]
    path.write_bytes(
        b"".join(msgspec.json.encode({**row, "group": str(row["group"])}) + b"\n" for row in rows)
    )
    return str(path)


def test_a_file_of_lengths_is_simulated(
    lengths: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that says simulated, rows with every key, and traces that replay."""
    out = tmp_path / "rows.jsonl"
    arguments = ["--workload", lengths, "--policies", "group_round_robin,seer,oracle"]
    arguments += ["--chunk-size", "16", "--json", str(out), "--trace", str(tmp_path / "traces")]
    assert run(["simulate", *arguments]) == 0
    assert "simulated" in capsys.readouterr().out
    lines = out.read_bytes().splitlines()
    rows = [msgspec.json.decode(line, type=SimulationRow) for line in lines]
    assert set(msgspec.json.decode(lines[0])) >= KEYS
    assert [row.policy for row in rows] == ["group_round_robin", "seer", "oracle"]
    assert rows[0].ratio_to_group_round_robin == 1
    assert rows[2].ratio_to_oracle == 1
    assert all(row.total_time_s >= row.lower_bound_s for row in rows)
    assert replay(tmp_path / "traces" / "seer.jsonl") > 0


def test_drafting_is_set_against_the_baseline_without_it(lengths: str, tmp_path: Path) -> None:
    """So that a ratio shows what drafts bring."""
    out = tmp_path / "rows.jsonl"
    for drafting in ("on", "vanilla", "off"):
        arguments = ["--workload", lengths, "--policies", "seer", "--drafting", drafting]
        assert run(["simulate", *arguments, "--json", str(out) + drafting]) == 0
    ratios = [
        msgspec.json.decode(Path(str(out) + drafting).read_bytes(), type=SimulationRow)
        for drafting in ("off", "vanilla", "on")
    ]
    values = [row.ratio_to_group_round_robin for row in ratios]
    assert values == sorted(values)


def test_steps_of_a_profiled_engine_time_the_simulation(lengths: str, tmp_path: Path) -> None:
    """With its own number of instances; a slower engine takes longer in proportion."""
    totals = []
    for step_ms in (1, 2):
        profile = tmp_path / f"{step_ms}.json"
        write_profile(profile, _profile(step_ms / 1e3))
        out = tmp_path / f"{step_ms}.jsonl"
        arguments = ["--workload", lengths, "--profile", str(profile), "--kv-tokens", "4096"]
        arguments += ["--instances", "2", "--max-running", "8", "--policies", "seer"]
        assert run(["simulate", *arguments, "--json", str(out)]) == 0
        totals.append(msgspec.json.decode(out.read_bytes(), type=SimulationRow).total_time_s)
    assert totals[1] == pytest.approx(2 * totals[0], rel=1e-3)


def test_memory_limit_pool_and_handover_are_those_of_the_machine(
    lengths: str, tmp_path: Path
) -> None:
    """Without a pool no KV moves, and a slow hand-over takes time between chunks."""
    profile = tmp_path / "profile.json"
    write_profile(profile, _profile(0.001))
    base = ["--workload", lengths, "--profile", str(profile), "--kv-tokens", "1024"]
    base += ["--instances", "2", "--policies", "divided", "--chunk-size", "16"]
    base += ["--max-tokens", "400"]
    rows = {}
    for name, arguments in {
        "as it is": [],
        "no pool": ["--pool-bytes", "0"],
        "slow": ["--handover-s", "0.01"],
    }.items():
        out = tmp_path / f"{name}.jsonl"
        assert run(["simulate", *base, *arguments, "--json", str(out)]) == 0
        rows[name] = msgspec.json.decode(out.read_bytes(), type=SimulationRow)
    assert rows["as it is"].kv_bytes_moved > rows["no pool"].kv_bytes_moved == 0
    assert rows["slow"].total_time_s > rows["as it is"].total_time_s
    assert run(["simulate", *base, "--max-tokens", "20"]) == EXIT_BAD_INPUT


def test_drafts_are_right_as_often_as_in_a_real_rollout(
    lengths: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its trace, or the directory with it; a trace without drafts is refused."""
    totals = []
    for accepted in (1, 9):
        directory = tmp_path / str(accepted)
        directory.mkdir()
        _write_trace(directory / "trace.jsonl", ((10, 10), (accepted, accepted)))
        out = tmp_path / f"{accepted}.jsonl"
        arguments = ["--workload", lengths, "--policies", "seer", "--drafting", "on"]
        arguments += ["--acceptance", str(directory), "--json", str(out)]
        assert run(["simulate", *arguments]) == 0
        totals.append(msgspec.json.decode(out.read_bytes(), type=SimulationRow).total_time_s)
    assert totals[1] < totals[0]
    capsys.readouterr()
    undrafted = tmp_path / "undrafted.jsonl"
    _write_trace(undrafted, ((), ()))
    arguments = ["--workload", lengths, "--drafting", "vanilla", "--acceptance", str(undrafted)]
    assert run(["simulate", *arguments]) == EXIT_BAD_INPUT
    assert "undrafted.jsonl'; allowed: a trace of a rollout with drafts" in capsys.readouterr().err


def _write_trace(path: Path, counts: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """One ended chunk with these numbers of drafts and right guesses by place."""
    drafted, accepted = counts
    event = ChunkFinished(
        request_id=RequestId(0, 0),
        chunk_index=0,
        instance_id=0,
        num_tokens=10,
        end=ChunkEnd.STOP,
        stats=ChunkStats(drafted_by_position=drafted, accepted_by_position=accepted),
        load=InstanceLoad(free_kv_tokens=0, num_running=0, num_waiting=0),
    )
    with path.open("wb") as file:
        TraceWriter(file, ControllerConfig()).write(TraceRecord(t=1.0, event=event, actions=[]))


def _profile(step_s: float) -> Profile:
    """An engine whose steps all take the same time, and whose prefill costs nearly nothing."""
    points = tuple(
        StepPoint(num_requests=n, num_tokens=n * w, context_tokens=n * c, seconds=step_s)
        for n in (1, 4, 8)
        for w in (1, 4)
        for c in (64, 512)
    )
    prefills = tuple(
        PrefillPoint(num_tokens=n, context_tokens=c, seconds=step_s * 1.0001)
        for n in (64, 256)
        for c in (0, 256)
    )
    engine = ProfiledEngine(
        model="m",
        dtype="bfloat16",
        device="cpu",
        threads=1,
        machine="a",
        date="2026-12-02",
        kv_bytes_per_token=1.0,
    )
    return make_profile(
        engine, points, prefills, KVCopySpeed(export_bytes_per_s=1e12, load_bytes_per_s=1e12)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workload", "llama"], "workload: got 'llama'; allowed: moonlight, qwen2-vl-72b, kimi"),
        (["--policies", "fifo"], "policy: got 'fifo'; allowed: group_round_robin"),
        (["--policies", "seer,seer"], "policies: got 'seer,seer'; allowed: different names"),
        (["--policies", "seer,"], "policies: got 'seer,'; allowed: different names"),
        (["--seeds", "0"], "seeds: got 0"),
        (["--group-size", "0"], "group_size: got 0"),
        (["--kv-tokens", "1000"], "kv_tokens"),
        (["--chunk-size", "-1"], "chunk_size: got -1"),
        (["--drafting", "some"], "drafting: got 'some'"),
        (["--profile", "p.json"], "profile: got 'p.json'; allowed: with a file of lengths"),
        (["--instances", "0"], "instances: got 0"),
        (["--max-tokens", "9"], "max_tokens: got 9; allowed: with a file of lengths"),
        (["--max-tokens", "0"], "max_tokens: got 0"),
        (["--pool-bytes", "9"], "pool_bytes: got 9; allowed: an integer >= 0, with a profile"),
        (["--handover-s", "0.1"], "handover_s: got 0.1; allowed: >= 0, with a profile"),
        (["--acceptance", "t.jsonl"], "acceptance: got 't.jsonl'; allowed: with drafting on or"),
        (["--acceptance", "t.jsonl", "--drafting", "on"], "trace: got 't.jsonl'; allowed: a trace"),
        (["--json", "/nowhere/rows.jsonl"], "json: got '/nowhere/rows.jsonl'"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the field, the value and what is allowed, before anything runs."""
    assert run(["simulate", *arguments]) == EXIT_BAD_INPUT
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
