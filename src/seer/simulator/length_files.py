"""Real lengths from a file: JSON lines (plain or gzip), parquet or CSV, one row a response.

Columns `group`, `member`, `length` (or `length_tokens`), and perhaps `num_prompt_tokens`; or
responses as tokens, as in a completions file that `seer rollout` has written (`prompt_id` or
`group`, `member`, `output_token_ids`, perhaps `prompt_token_ids`).
"""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from seer.errors import InvalidInput
from seer.simulator.workload import Workload
from seer.types import GroupSpec

DEFAULT_PROMPT_TOKENS = 256
"""Prompt of a group whose file does not say."""


class LengthRow(msgspec.Struct, frozen=True, kw_only=True):
    """One response."""

    group: str
    member: int
    length: int
    num_prompt_tokens: int = DEFAULT_PROMPT_TOKENS


def read_workload(path: Path, max_tokens: int | None = None) -> Workload:
    """A workload of real lengths. `max_tokens`: the limit; None: the longest length.

    Raises InvalidInput for a file that cannot be read, a row without its fields, a length below 1
    or over the limit, a response that occurs twice, and a group with a member missing.
    """
    rows = [_row(path, number, fields) for number, fields in _read(path)]
    if not rows:
        raise InvalidInput("workload", str(path), "allowed: a file with at least one response")
    limit = max_tokens or max(row.length for row in rows)
    groups: dict[str, dict[int, LengthRow]] = {}
    for row in rows:
        if not 1 <= row.length <= limit:
            shown = f"{path}: {row.length} of group {row.group}, member {row.member}"
            raise InvalidInput("length", shown, f"allowed: from 1 to max_tokens ({limit})")
        members = groups.setdefault(row.group, {})
        if row.member in members:
            shown = f"{path}: group {row.group}, member {row.member}"
            raise InvalidInput("member", shown, "allowed: each member of a group once")
        members[row.member] = row
    specs = [_spec(path, i, name, groups[name], limit) for i, name in enumerate(groups)]
    return Workload(name=path.name, groups=tuple(specs))


def _spec(
    path: Path, group_id: int, name: str, members: dict[int, LengthRow], limit: int
) -> GroupSpec:
    missing = sorted(set(range(max(members) + 1)) - set(members))
    if missing:
        shown = f"{path}: group {name} lacks member {missing[0]}"
        raise InvalidInput("member", shown, "allowed: members 0, 1, 2 ... without a gap")
    return GroupSpec(
        group_id=group_id,
        group_size=len(members),
        num_prompt_tokens=max(1, members[0].num_prompt_tokens),
        max_tokens=limit,
        known_lengths=tuple(members[member].length for member in range(len(members))),
    )


def _row(path: Path, number: int, fields: dict[str, object]) -> LengthRow:
    if "output_token_ids" in fields:
        fields = _from_completion(fields)
    elif "length_tokens" in fields:
        fields = {"length": fields["length_tokens"], **fields}
    if isinstance(fields.get("group"), int):
        fields = {**fields, "group": str(fields["group"])}
    try:
        row = msgspec.convert(fields, LengthRow, strict=False)
    except msgspec.ValidationError as error:
        allowed = f"allowed: group, member, length ({error})"
        raise InvalidInput("workload", f"{path}:{number}", allowed) from None
    if row.member < 0:
        raise InvalidInput("member", f"{path}:{number}: {row.member}", "allowed: an integer >= 0")
    return row


def _from_completion(fields: dict[str, object]) -> dict[str, object]:
    output, prompt = fields.get("output_token_ids"), fields.get("prompt_token_ids")
    row = {
        "group": fields.get("prompt_id", fields.get("group")),
        "member": fields.get("member"),
        "length": len(output) if isinstance(output, list) else None,
    }
    if isinstance(prompt, list):
        row["num_prompt_tokens"] = len(prompt)
    return row


def _read(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Rows with their numbers, from 1."""
    try:
        if path.suffix == ".parquet":
            yield from enumerate(pq.read_table(path).to_pylist(), start=1)
        elif path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8") as file:
                yield from enumerate(csv.DictReader(file), start=2)
        else:
            yield from _read_json_lines(path)
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        if isinstance(error, InvalidInput):
            raise
        allowed = f"allowed: JSON lines, parquet or CSV of lengths ({error})"
        raise InvalidInput("workload", str(path), allowed) from error


def _read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    decoder = msgspec.json.Decoder(dict[str, object])
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield number, decoder.decode(line)
            except msgspec.DecodeError as error:
                allowed = f"allowed: a JSON object a line ({error})"
                raise InvalidInput("workload", f"{path}:{number}", allowed) from error
