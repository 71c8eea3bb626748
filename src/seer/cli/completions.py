"""The completions of a rollout as rows, and the two files that hold them."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    {
        "prompt_id": pa.string(),
        "member": pa.int32(),
        "prompt_token_ids": pa.list_(pa.int32()),
        "output_token_ids": pa.list_(pa.int32()),
        "text": pa.string(),
        "logprobs": pa.list_(pa.float64()),
        "finish_reason": pa.string(),
        "started_s": pa.float64(),
        "finished_s": pa.float64(),
        "metadata": pa.string(),
    }
)
"""Columns of completions.parquet. `metadata` is JSON text: its keys differ between prompts."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One finished response; the columns of the output files."""

    prompt_id: str
    member: int
    prompt_token_ids: list[int]
    output_token_ids: list[int]
    text: str
    logprobs: list[float]
    finish_reason: str
    started_s: float
    """Start of its first chunk, counted from the start of the rollout (or of its resumption)."""
    finished_s: float
    metadata: dict[str, object]


def encode_json(value: object) -> bytes:
    """JSON of anything that a prompts file can hold; what JSON has no type for becomes text."""
    return msgspec.json.encode(value, enc_hook=str)


def write_completions(path: Path, rows: Iterable[Completion]) -> None:
    """Write all rows to a .parquet or .jsonl file, which appears complete or not at all."""
    unfinished = path.with_name(f".{path.name}.tmp")
    if path.suffix == ".parquet":
        _write_parquet(unfinished, rows)
    else:
        unfinished.write_bytes(b"".join(encode_json(row) + b"\n" for row in rows))
    unfinished.rename(path)


def _write_parquet(path: Path, rows: Iterable[Completion]) -> None:
    columns = [
        msgspec.structs.asdict(row) | {"metadata": encode_json(row.metadata).decode()}
        for row in rows
    ]
    pq.write_table(pa.Table.from_pylist(columns, schema=SCHEMA), path)
