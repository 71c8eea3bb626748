"""`seer report` and `seer trace`: what they make, and what they refuse."""

import json
from pathlib import Path

import pytest

from seer.cli.report import make_report, show_trace
from seer.errors import InvalidInput, TraceMismatch
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.trace import TraceWriter
from seer.types import GroupSpec, RequestId
from support.model_cluster import run
from support.model_instance import make_info
from support.scenario import Scenario


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The trace of a rollout of 2 groups of 3 on 2 instances."""
    config = ControllerConfig(chunk_size=4, num_host_slots=20)
    spec = GroupSpec(group_id=0, group_size=3, num_prompt_tokens=9, max_tokens=20)
    other = GroupSpec(group_id=1, group_size=3, num_prompt_tokens=9, max_tokens=20)
    lengths = {RequestId(g, m): 5 + 4 * m + g for g in range(2) for m in range(3)}
    scenario = Scenario(
        config=config,
        info=make_info(20),
        num_instances=2,
        groups=(spec, other),
        lengths=lengths,
        seed=0,
    )
    path = tmp_path / "out" / "trace.jsonl"
    path.parent.mkdir()
    with path.open("wb") as file:
        writer = TraceWriter(file, config)
        for record in run(scenario).records:
            writer.write(record)
    return path


def test_report_makes_a_page(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its title, and the traces by their names."""
    page = tmp_path / "page.html"
    make_report([str(trace), f"again={trace.parent}"], out=str(page), title="My run")
    text = page.read_text(encoding="utf-8")
    assert "<h1>My run</h1>" in text
    assert "again" in text
    assert f"made: {page}" in capsys.readouterr().out


def test_trace_prints_metrics(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One a line."""
    show_trace(str(trace))
    lines = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert lines["num_requests"] == "6"
    assert lines["output_tokens"] == str(sum(5 + 4 * m + g for g in range(2) for m in range(3)))


def test_trace_exports_for_perfetto_and_replays(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both say what they did."""
    output = tmp_path / "perfetto.json"
    show_trace(str(trace), perfetto=str(output), replay=True)
    assert json.loads(output.read_text())["traceEvents"]
    printed = capsys.readouterr().out
    assert "ui.perfetto.dev" in printed
    assert "the same actions" in printed


def test_replay_tells_a_trace_that_was_changed(trace: Path) -> None:
    """The controller would have done something else."""
    trace.write_text(trace.read_text().replace('"max_tokens":4,', '"max_tokens":3,', 1))
    with pytest.raises(TraceMismatch):
        show_trace(str(trace), replay=True)


@pytest.mark.parametrize("out", ["", "/proc/none/page.html", "."])
def test_an_output_that_cannot_be_written_is_refused_at_once(trace: Path, out: str) -> None:
    """Before a trace is read: the traces need not even exist."""
    with pytest.raises(InvalidInput, match=r"out: got .*; allowed: a file"):
        make_report(["none"], out=out)
    with pytest.raises(InvalidInput, match=r"perfetto: got .*; allowed: a file"):
        show_trace(str(trace), perfetto=out)


def test_too_many_traces_are_refused_before_they_are_read(trace: Path) -> None:
    """There are eight colours."""
    with pytest.raises(InvalidInput, match="traces: got 9"):
        make_report([f"{i}={trace}" for i in range(9)], out="/tmp/none.html")  # noqa: S108
