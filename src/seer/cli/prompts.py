"""Prompts from a file or from reasoning-gym tasks, checked row by row before any model is touched.

A row is an object with `prompt` (text, chat messages or token ids) or `messages` (chat messages),
optionally `id`; every other key is metadata and is carried through to the completions.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from seer.cli.tasks import TASKS_PREFIX, make_tasks
from seer.errors import InvalidInput

PromptContent = str | list[int] | list[dict[str, str]]

ROW_SHAPE = (
    'allowed: {"prompt": text | [{"role": ..., "content": ...}, ...] | [token ids]} '
    'or {"messages": [...]}, with an optional "id" (text or number)'
)


class PromptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt as the user gave it."""

    prompt_id: str
    content: PromptContent
    metadata: dict[str, object]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message of a chat."""

    role: str
    content: str


def read_prompts(source: str, num_prompts: int | None, seed: int) -> list[PromptRow]:
    """The first `num_prompts` prompts of a source. Raises InvalidInput naming the bad row."""
    if source.startswith(TASKS_PREFIX):
        tasks = make_tasks(source, num_prompts or 8, seed)
        return [_row(task.prompt_id, task.as_row(), index) for index, task in enumerate(tasks)]
    path = Path(source)
    if not path.is_file():
        raise InvalidInput("prompts", source, "allowed: a file, or reasoning-gym:<task>[,<task>]")
    match path.suffix:
        case ".jsonl":
            raw_rows = _jsonl_rows(path)
        case ".parquet":
            raw_rows = _parquet_rows(path)
        case _:
            raise InvalidInput("prompts", source, "allowed: a .jsonl or .parquet file")
    rows = [_row(place, raw, index) for index, (place, raw) in enumerate(raw_rows)]
    _check_count(source, len(rows), num_prompts)
    _check_ids(source, rows)
    return rows[:num_prompts]


def _jsonl_rows(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            yield place, msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(
                "prompts", place, f"allowed: a JSON object a line ({error})"
            ) from error


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        why = str(error).splitlines()[0]
        raise InvalidInput("prompts", str(path), f"allowed: a parquet file ({why})") from error
    for index, raw in enumerate(table.to_pylist()):
        # A column that other rows need is null here; absent and null mean the same.
        yield f"{path} row {index}", {key: each for key, each in raw.items() if each is not None}


def _row(place: str, raw: dict[str, object], index: int) -> PromptRow:
    metadata = dict(raw)
    prompt_id = metadata.pop("id", index)
    if ("prompt" in raw) == ("messages" in raw):
        raise InvalidInput("prompts", place, ROW_SHAPE)
    name = "prompt" if "prompt" in raw else "messages"
    if not isinstance(prompt_id, str | int) or isinstance(prompt_id, bool):
        raise InvalidInput("prompts", place, ROW_SHAPE)
    content = _content(place, metadata.pop(name))
    return PromptRow(prompt_id=str(prompt_id), content=content, metadata=metadata)


def _content(place: str, value: object) -> PromptContent:
    if not value:
        raise InvalidInput("prompts", place, "allowed: a prompt that is not empty")
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, list) and isinstance(value[0], int):
            return msgspec.convert(value, type=list[int], strict=True)
        return [
            msgspec.structs.asdict(message) for message in msgspec.convert(value, list[Message])
        ]
    except msgspec.ValidationError as error:
        raise InvalidInput("prompts", place, ROW_SHAPE) from error


def _check_count(source: str, found: int, wanted: int | None) -> None:
    if not found:
        raise InvalidInput("prompts", source, "allowed: a file with at least one prompt")
    if wanted and wanted > found:
        raise InvalidInput(
            "num_prompts", wanted, f"allowed: up to {found}, as many as {source} has"
        )


def _check_ids(source: str, rows: list[PromptRow]) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.prompt_id in seen:
            raise InvalidInput(
                "prompts", source, f"allowed: unique ids, not twice {row.prompt_id!r}"
            )
        seen.add(row.prompt_id)
