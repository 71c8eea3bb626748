"""Prompt sources: shapes that are read, rows that are refused by name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seer.cli.prompts import read_prompts
from seer.errors import InvalidInput


def jsonl(path: Path, *lines: str) -> str:
    file = path / "prompts.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def test_every_shape_of_a_row(tmp_path: Path) -> None:
    """Text, chat messages under either name, and token ids; other keys are metadata."""
    source = jsonl(
        tmp_path,
        '{"prompt": "Hi", "answer": 42}',
        '{"prompt": [{"role": "user", "content": "Hi"}], "id": "chat"}',
        '{"messages": [{"role": "user", "content": "Hi"}], "id": 7}',
        "",
        '{"prompt": [1, 2, 3]}',
    )
    rows = read_prompts(source, None, seed=0)
    message = {"role": "user", "content": "Hi"}
    assert [row.content for row in rows] == ["Hi", [message], [message], [1, 2, 3]]
    assert [row.prompt_id for row in rows] == ["0", "chat", "7", "3"]
    assert rows[0].metadata == {"answer": 42}


def test_parquet_is_read_like_jsonl(tmp_path: Path) -> None:
    """Columns of a parquet file are the keys of a row; a null is an absent key."""
    path = tmp_path / "prompts.parquet"
    rows = [{"prompt": "a", "level": 1}, {"prompt": "b", "level": None}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    found = read_prompts(str(path), None, seed=0)
    assert [(row.content, row.metadata) for row in found] == [("a", {"level": 1}), ("b", {})]


def test_num_prompts_takes_the_first(tmp_path: Path) -> None:
    """Only the first rows are used."""
    source = jsonl(tmp_path, '{"prompt": "a"}', '{"prompt": "b"}')
    assert [row.content for row in read_prompts(source, 1, seed=0)] == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        '{"prompt": "half',
        '{"prompt": ""}',
        '{"prompt": []}',
        '{"prompt": [1, "a"]}',
        '{"prompt": [{"role": "user"}]}',
        '{"prompt": 5}',
        '{"prompt": "a", "messages": [{"role": "user", "content": "Hi"}]}',
        '{"prompt": "a", "id": [1]}',
        '{"text": "a"}',
        '["a"]',
    ],
)
def test_bad_line_is_named(tmp_path: Path, line: str) -> None:
    """A line that is half-written, empty or of another shape is refused by its number."""
    source = jsonl(tmp_path, '{"prompt": "fine"}', line)
    with pytest.raises(InvalidInput) as caught:
        read_prompts(source, None, seed=0)
    assert f"{source}:2" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    """A line that is not UTF-8 is refused by its number."""
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b'{"prompt": "fine"}\n{"prompt": "\xff"}\n')
    with pytest.raises(InvalidInput, match=r"prompts\.jsonl:2"):
        read_prompts(str(path), None, seed=0)


@pytest.mark.parametrize("name", ["none.jsonl", "prompts.csv", "damaged.parquet", "empty.jsonl"])
def test_unreadable_source_is_refused(tmp_path: Path, name: str) -> None:
    """Missing, foreign, damaged and empty files are refused."""
    (tmp_path / "prompts.csv").write_text("a,b")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 half")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(InvalidInput, match="prompts"):
        read_prompts(str(tmp_path / name), None, seed=0)


def test_more_prompts_than_the_file_has(tmp_path: Path) -> None:
    """Asking for more prompts than there are says how many there are."""
    with pytest.raises(InvalidInput, match="num_prompts: got 2; allowed: up to 1"):
        read_prompts(jsonl(tmp_path, '{"prompt": "a"}'), 2, seed=0)


def test_ids_are_unique(tmp_path: Path) -> None:
    """Two prompts under one id could not be told apart in the output."""
    source = jsonl(tmp_path, '{"prompt": "a", "id": 1}', '{"prompt": "b", "id": "1"}')
    with pytest.raises(InvalidInput, match="not twice '1'"):
        read_prompts(source, None, seed=0)


def test_tasks_are_dealt_and_determined_by_the_seed() -> None:
    """Items go round the tasks; the same seed makes the same items, another one others."""
    pytest.importorskip("reasoning_gym")
    source = "reasoning-gym:chain_sum,spell_backward"
    rows = read_prompts(source, 3, seed=5)
    assert [row.metadata["task"] for row in rows] == ["chain_sum", "spell_backward", "chain_sum"]
    assert rows == read_prompts(source, 3, seed=5)
    assert rows != read_prompts(source, 3, seed=6)


def test_task_metadata_scores_an_answer() -> None:
    """The entry kept in the metadata is what the task's verifier needs."""
    reasoning_gym = pytest.importorskip("reasoning_gym")
    (row,) = read_prompts("reasoning-gym:chain_sum", 1, seed=0)
    entry = row.metadata["entry"]
    data_set = reasoning_gym.create_dataset("chain_sum", seed=0, size=1)
    assert isinstance(entry, dict)
    assert data_set.score_answer(answer=entry["answer"], entry=entry) == 1.0


def test_unknown_task_suggests_near_names() -> None:
    """A misspelt task is refused with tasks of a similar name."""
    pytest.importorskip("reasoning_gym")
    with pytest.raises(InvalidInput, match=r"chain_sums.*chain_sum"):
        read_prompts("reasoning-gym:chain_sums", 1, seed=0)
