"""The journal of a rollout: every finished group on disk at once, so that no interruption loses it.

One JSON line a group after a header line that says what was asked. A line is written and flushed
whole; a last line cut short by a kill is dropped on resumption, and its group generated again.
Draws are keyed, so the groups that are missing come out as they would have in one run (float32).
"""

import os
from pathlib import Path
from typing import Self

import msgspec

from seer.cli.completions import Completion, encode_json
from seer.errors import InvalidInput
from seer.types import SamplingParams

JOURNAL_NAME = "completions.jsonl.part"


class JournalHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the texts: a rollout may be resumed only with the same of each."""

    engine: str = "local"
    model: str
    dtype: str
    logprobs: str
    group_size: int
    sampling: SamplingParams
    prompts_digest: str
    """Hash of all prompts, as token ids, in order."""


class JournalGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One finished group."""

    prompt_index: int
    completions: list[Completion]


class Journal:
    """Owner of the journal file in an output directory."""

    def __init__(self, path: Path, groups: dict[int, JournalGroup], position: int) -> None:
        self.groups = groups
        self._path = path
        self._file = path.open("r+b")
        self._file.truncate(position)
        self._file.seek(position)

    @classmethod
    def create(cls, directory: Path, header: JournalHeader) -> Self:
        """Start a new journal."""
        path = directory / JOURNAL_NAME
        line = encode_json(header) + b"\n"
        path.write_bytes(line)
        return cls(path, {}, len(line))

    @classmethod
    def reopen(cls, directory: Path, header: JournalHeader) -> Self:
        """Go on with a journal. Raises InvalidInput if it is of another rollout or damaged."""
        path = directory / JOURNAL_NAME
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if not lines:
            return cls.create(directory, header)
        _check_header(path, lines[0], header)
        groups = [
            _parse_group(path, number, line) for number, line in enumerate(lines[1:], start=2)
        ]
        return cls(path, {group.prompt_index: group for group in groups}, len(whole))

    def append(self, group: JournalGroup) -> None:
        """Put a finished group on disk."""
        self._file.write(encode_json(group) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.groups[group.prompt_index] = group

    def completions(self) -> list[Completion]:
        """All completions so far, in the order of the prompts."""
        return [row for _, group in sorted(self.groups.items()) for row in group.completions]

    def close(self) -> None:
        """Close the file and leave it."""
        self._file.close()

    def remove(self) -> None:
        """Close and delete it, when its content is in the final file."""
        self.close()
        self._path.unlink()


def _check_header(path: Path, line: bytes, header: JournalHeader) -> None:
    try:
        found = msgspec.json.decode(line, type=JournalHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("out", f"{path}:1", f"allowed: a journal of seer ({error})") from error
    for name in JournalHeader.__struct_fields__:
        if getattr(found, name) != getattr(header, name):
            raise InvalidInput(
                "resume",
                f"{name} {getattr(header, name)}",
                f"allowed: what {path} was started with, {name} {getattr(found, name)}",
            )


def _parse_group(path: Path, number: int, line: bytes) -> JournalGroup:
    try:
        return msgspec.json.decode(line, type=JournalGroup)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            "resume", f"{path}:{number}", f"allowed: a journal of whole lines ({error})"
        ) from error
