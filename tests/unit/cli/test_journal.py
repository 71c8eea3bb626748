"""Journal, output directory and the completions files."""

import json
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from seer.cli.completions import Completion, write_completions
from seer.cli.journal import JOURNAL_NAME, Journal, JournalGroup, JournalHeader
from seer.cli.outdir import open_out_dir, trace_path
from seer.errors import InvalidInput
from seer.types import SamplingParams

HEADER = JournalHeader(
    model="m",
    dtype="float32",
    logprobs="raw",
    group_size=1,
    sampling=SamplingParams(seed=3),
    prompts_digest="d",
)


def group(index: int) -> JournalGroup:
    row = Completion(
        prompt_id=f"p{index}",
        member=0,
        prompt_token_ids=[1, 2],
        output_token_ids=[3],
        text="né",
        logprobs=[-0.1],
        finish_reason="stop",
        started_s=0.5,
        finished_s=1.5,
        metadata={"task": "t", "entry": {"answer": "4"}},
    )
    return JournalGroup(prompt_index=index, completions=[row])


def test_reopened_journal_has_every_group(tmp_path: Path) -> None:
    """Groups come back after a restart, in the order of the prompts."""
    journal = Journal.create(tmp_path, HEADER)
    journal.append(group(1))
    journal.append(group(0))
    journal.close()
    again = Journal.reopen(tmp_path, HEADER)
    assert again.groups == {0: group(0), 1: group(1)}
    assert [row.prompt_id for row in again.completions()] == ["p0", "p1"]
    again.close()


def test_line_cut_by_a_kill_is_dropped(tmp_path: Path) -> None:
    """A half-written last line costs its group only, and the next one is written in its place."""
    journal = Journal.create(tmp_path, HEADER)
    journal.append(group(0))
    journal.append(group(1))
    journal.close()
    path = tmp_path / JOURNAL_NAME
    path.write_bytes(path.read_bytes()[:-20])
    again = Journal.reopen(tmp_path, HEADER)
    assert list(again.groups) == [0]
    again.append(group(2))
    again.close()
    last = Journal.reopen(tmp_path, HEADER)
    assert list(last.groups) == [0, 2]
    last.close()


def test_journal_cut_in_its_header_starts_anew(tmp_path: Path) -> None:
    """A kill during the very first write leaves nothing to keep."""
    (tmp_path / JOURNAL_NAME).write_bytes(b'{"model"')
    journal = Journal.reopen(tmp_path, HEADER)
    assert journal.groups == {}
    journal.close()


def test_damaged_line_is_named(tmp_path: Path) -> None:
    """A damaged line in the middle is not passed over in silence."""
    journal = Journal.create(tmp_path, HEADER)
    journal.append(group(0))
    journal.close()
    path = tmp_path / JOURNAL_NAME
    path.write_bytes(path.read_bytes() + b"{}\n")
    with pytest.raises(InvalidInput, match=f"{JOURNAL_NAME}:3"):
        Journal.reopen(tmp_path, HEADER)


def test_other_settings_are_refused(tmp_path: Path) -> None:
    """A journal is resumed with what decides its texts only."""
    Journal.create(tmp_path, HEADER).close()
    other = msgspec.structs.replace(HEADER, sampling=SamplingParams(seed=4))
    with pytest.raises(InvalidInput, match=r"sampling .*seed=4.*allowed.*seed=3"):
        Journal.reopen(tmp_path, other)


def test_removed_journal_is_gone(tmp_path: Path) -> None:
    """The journal goes when the final file is there."""
    Journal.create(tmp_path, HEADER).remove()
    assert not list(tmp_path.iterdir())


def test_both_formats_hold_the_same(tmp_path: Path) -> None:
    """Parquet and JSONL have the same columns and values; metadata is JSON text in parquet."""
    rows = group(0).completions
    write_completions(tmp_path / "c.parquet", rows)
    write_completions(tmp_path / "c.jsonl", rows)
    (from_parquet,) = pq.read_table(tmp_path / "c.parquet").to_pylist()
    from_parquet["metadata"] = json.loads(from_parquet["metadata"])
    (line,) = (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines()
    assert from_parquet == json.loads(line) == msgspec.structs.asdict(rows[0])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c.jsonl", "c.parquet"]


def test_out_dir_is_made(tmp_path: Path) -> None:
    """A directory that does not exist is made with its parents."""
    assert open_out_dir(str(tmp_path / "a" / "b"), resume=False).is_dir()


def test_used_out_dir_is_refused(tmp_path: Path) -> None:
    """Results never mix with other files; an interrupted rollout is offered for resumption."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="empty directory, or another one"):
        open_out_dir(str(tmp_path), resume=False)
    (tmp_path / JOURNAL_NAME).write_text("")
    with pytest.raises(InvalidInput, match="--resume"):
        open_out_dir(str(tmp_path), resume=False)


def test_nothing_to_resume_is_refused(tmp_path: Path) -> None:
    """Resuming needs a journal."""
    with pytest.raises(InvalidInput, match="resume"):
        open_out_dir(str(tmp_path), resume=True)


def test_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """An output path that cannot be a directory is refused."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="out: got"):
        open_out_dir(str(tmp_path / "file"), resume=False)


def test_resumed_runs_have_traces_of_their_own(tmp_path: Path) -> None:
    """No trace is written over another one."""
    assert trace_path(tmp_path).name == "trace.jsonl"
    (tmp_path / "trace.jsonl").write_text("")
    assert trace_path(tmp_path).name == "trace-2.jsonl"
