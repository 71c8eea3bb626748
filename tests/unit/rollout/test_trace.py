import io
from pathlib import Path

import msgspec
import pytest

from seer.errors import InvalidInput, TraceMismatch
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import InstanceJoined, StartChunk
from seer.rollout.trace import TraceRecord, TraceWriter, read_header, read_trace, replay
from seer.types import GroupSpec, RequestId
from support.model_cluster import run
from support.model_instance import make_info
from support.scenario import Scenario

CONFIG = ControllerConfig(chunk_size=3, num_host_slots=7)


def _records() -> list[TraceRecord]:
    """A small rollout."""
    scenario = Scenario(
        config=CONFIG,
        info=make_info(20),
        num_instances=2,
        groups=(GroupSpec(group_id=0, group_size=3, num_prompt_tokens=9, max_tokens=10),),
        lengths={RequestId(0, member): 2 + 4 * member for member in range(3)},
        seed=5,
    )
    return run(scenario).records


def _write(path: Path, records: list[TraceRecord]) -> Path:
    file = io.BytesIO()
    writer = TraceWriter(file, CONFIG)
    for record in records:
        writer.write(record)
    path.write_bytes(file.getvalue())
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Settings, events and actions."""
    records = _records()
    path = _write(tmp_path / "trace.jsonl", records)
    assert read_header(path).config == CONFIG
    assert list(read_trace(path)) == records
    assert replay(path) == len(records)


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    """As a killed process leaves it."""
    records = _records()
    path = _write(tmp_path / "trace.jsonl", records)
    path.write_bytes(path.read_bytes()[:-5])
    assert list(read_trace(path)) == records[:-1]


def test_other_actions_are_a_mismatch_that_names_the_first_difference(tmp_path: Path) -> None:
    """Event, place, and both actions."""
    records = _records()
    number = next(i for i, record in enumerate(records) if record.actions)
    start = records[number].actions[0]
    assert isinstance(start, StartChunk)
    other = msgspec.structs.replace(start, max_tokens=1)
    records[number] = msgspec.structs.replace(
        records[number], actions=[other, *records[number].actions[1:]]
    )
    path = _write(tmp_path / "trace.jsonl", records)
    with pytest.raises(TraceMismatch, match=f"event {number + 1} .*action 1: .*max_tokens=1"):
        replay(path)


def test_missing_actions_are_a_mismatch(tmp_path: Path) -> None:
    """The replay gives more than was recorded."""
    records = _records()
    number = next(i for i, record in enumerate(records) if record.actions)
    records[number] = msgspec.structs.replace(records[number], actions=[])
    path = _write(tmp_path / "trace.jsonl", records)
    with pytest.raises(TraceMismatch, match="recorded no more actions"):
        replay(path)


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    """Lines count from 1, the header included."""
    path = _write(tmp_path / "trace.jsonl", _records())
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"t": 1}\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(InvalidInput, match=r"trace\.jsonl:3"):
        list(read_trace(path))


@pytest.mark.parametrize(
    "head",
    [b"", b"no json\n", b'{"format":"seer-trace","version":2,"config":{}}\n'],
)
def test_what_is_not_a_trace_is_refused(tmp_path: Path, head: bytes) -> None:
    """By its first line."""
    path = tmp_path / "trace.jsonl"
    path.write_bytes(head)
    with pytest.raises(InvalidInput, match="trace"):
        replay(path)


def test_events_are_tagged_by_name() -> None:
    """So that a line can be read by eye."""
    event = InstanceJoined(instance_id=0, info=make_info(1))
    assert b'"type":"InstanceJoined"' in msgspec.json.encode(event)
