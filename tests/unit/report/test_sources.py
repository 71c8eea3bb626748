from collections.abc import Callable
from pathlib import Path

import pytest

from seer.errors import InvalidInput
from seer.report.sources import find_trace, find_traces, read_timeline
from support.scenario import Outcome

WriteTrace = Callable[..., Path]


def labels(*arguments: object) -> list[str]:
    return [source.label for source in find_traces([str(each) for each in arguments])]


def test_traces_are_called_like_their_file_or_directory(tmp_path: Path, trace: WriteTrace) -> None:
    """trace.jsonl is called like its directory; a directory of traces stands for all of them."""
    rollout = trace(tmp_path / "mine" / "trace.jsonl", [])
    trace(tmp_path / "sim" / "divided.jsonl", [])
    trace(tmp_path / "sim" / "oracle.jsonl", [])
    (tmp_path / "mine" / "completions.jsonl").write_text("{}\n")
    assert labels(rollout.parent) == labels(rollout) == ["mine"]
    assert labels(tmp_path / "sim", f"again={rollout}") == ["divided", "oracle", "again"]
    assert find_trace(str(rollout.parent)) == rollout


def test_names_must_differ(tmp_path: Path, trace: WriteTrace) -> None:
    """The error says how to give one."""
    path = trace(tmp_path / "a" / "trace.jsonl", [])
    with pytest.raises(InvalidInput, match="different names; NAME=TRACE gives one"):
        labels(path, path)


@pytest.mark.parametrize("argument", ["none", "name=none", ""])
def test_a_missing_trace_is_named(argument: str) -> None:
    """With what would be one."""
    with pytest.raises(InvalidInput, match="allowed: a trace file, or a directory"):
        find_traces([argument or "/proc/self/fdinfo/none"])


def test_a_directory_without_or_with_several_traces(tmp_path: Path, trace: WriteTrace) -> None:
    """Sessions of one rollout have a clock each: one must be named."""
    with pytest.raises(InvalidInput, match="directory with trace"):
        find_traces([str(tmp_path)])
    trace(tmp_path / "trace.jsonl", [])
    second = trace(tmp_path / "trace-2.jsonl", [])
    with pytest.raises(InvalidInput, match=r"allowed: one of .*trace-2\.jsonl"):
        find_traces([str(tmp_path)])
    assert labels(second) == ["trace-2"]
    with pytest.raises(InvalidInput, match="allowed: one of"):
        find_trace(str(tmp_path))


def test_what_is_no_trace_is_refused(
    tmp_path: Path, trace: WriteTrace, outcome: Callable[..., Outcome]
) -> None:
    """Other files, traces without groups, and traces without their beginning."""
    other = tmp_path / "other.jsonl"
    other.write_text('{"prompt": "Hi"}\n')
    with pytest.raises(InvalidInput, match="allowed: a trace of seer"):
        read_timeline(other)
    with pytest.raises(InvalidInput, match="in which groups were submitted"):
        read_timeline(trace(tmp_path / "empty.jsonl", []))
    with pytest.raises(InvalidInput, match="a trace with its first lines"):
        read_timeline(trace(tmp_path / "late.jsonl", outcome().records[6:]))
