import gzip
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seer.errors import InvalidInput
from seer.simulator.length_files import read_workload

ROWS = [
    {"group": "b", "member": 1, "length": 7},
    {"group": "a", "member": 0, "length": 5},
    {"group": "b", "member": 0, "length": 9},
]


def _write(path: Path, rows: list[dict[str, object]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["l.jsonl", "l.jsonl.gz", "l.csv", "l.parquet"])
def test_lengths_are_read_from_each_format(name: str, tmp_path: Path) -> None:
    """Groups in the order of their first row, members in order; the limit is the longest."""
    workload = read_workload(_write(tmp_path / name, ROWS))
    assert [group.known_lengths for group in workload.groups] == [(9, 7), (5,)]
    assert {group.max_tokens for group in workload.groups} == {9}


def test_a_rollout_s_completions_are_lengths(tmp_path: Path) -> None:
    """Tokens are counted; the prompt's too."""
    row: dict[str, object] = {
        "prompt_id": "q",
        "member": 0,
        "prompt_token_ids": [1, 2, 3],
        "output_token_ids": [4, 5],
    }
    workload = read_workload(_write(tmp_path / "completions.jsonl", [row]))
    assert workload.groups[0].known_lengths == (2,)
    assert workload.groups[0].num_prompt_tokens == 3


def test_groups_may_be_numbers_and_responses_tokens(tmp_path: Path) -> None:
    """As in files that others have written."""
    rows: list[dict[str, object]] = [
        {"group": 7, "member": member, "output_token_ids": [1] * length}
        for member, length in enumerate((4, 6))
    ]
    workload = read_workload(_write(tmp_path / "l.jsonl", rows))
    assert workload.groups[0].known_lengths == (4, 6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"group": "a", "member": 1, "length": 5}], "lacks member 0"),
        ([ROWS[1], ROWS[1]], "each member of a group once"),
        ([{"group": "a", "member": 0, "length": 0}], "from 1 to max_tokens"),
        ([{"group": "a", "member": 0, "length": -4}], "from 1 to max_tokens"),
        ([{"group": "a", "member": 0, "length": 11}], r"from 1 to max_tokens \(10\)"),
        ([{"group": "a", "member": -1, "length": 3}], "integer >= 0"),
        ([{"group": "a", "length": 3}], "l.jsonl:1.*member"),
    ],
)
def test_bad_rows_are_named(rows: list[dict[str, object]], message: str, tmp_path: Path) -> None:
    """Missing members, duplicates, lengths out of range, missing columns."""
    with pytest.raises(InvalidInput, match=message):
        read_workload(_write(tmp_path / "l.jsonl", rows), max_tokens=10)


def test_a_half_written_line_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    """With the line's number."""
    path = tmp_path / "l.jsonl"
    path.write_text('{"group": "a", "member": 0, "length": 3}\n{"group": "a", "mem')
    with pytest.raises(InvalidInput, match=r"l\.jsonl:2"):
        read_workload(path)
    path.write_text("")
    with pytest.raises(InvalidInput, match="at least one response"):
        read_workload(path)
