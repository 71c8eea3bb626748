"""The trace: every event that the controller handled, with the actions it gave.

One JSON line a record after a header line with the controller's settings, which are all that a
replay needs: `replay` runs the controller again over the events and compares the actions. No token
content is in it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from seer.errors import InvalidInput, TraceMismatch
from seer.rollout.controller import Controller
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import Action, Event

FORMAT = "seer-trace"
VERSION = 1


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a trace."""

    format: str
    version: int
    config: ControllerConfig


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One handled event."""

    t: float
    """`now` as the controller was told: seconds since the session began."""
    event: Event
    actions: list[Action]


class TraceWriter:
    """Writes a trace to a file, which the caller opens and closes."""

    def __init__(self, file: BinaryIO, config: ControllerConfig) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._write_line(TraceHeader(format=FORMAT, version=VERSION, config=config))

    def write(self, record: TraceRecord) -> None:
        """Append a record."""
        self._write_line(record)

    def _write_line(self, line: TraceHeader | TraceRecord) -> None:
        self._file.write(self._encoder.encode(line) + b"\n")


def read_header(path: Path) -> TraceHeader:
    """The settings that a trace was made with. Raises InvalidInput when it is not a trace."""
    with path.open("rb") as file:
        return _decode_header(path, file.readline())


def read_trace(path: Path) -> Iterator[TraceRecord]:
    """The records of a trace, in order. Raises InvalidInput naming the line that is not one.

    A last line that was cut short, as a killed process leaves it, ends the trace.
    """
    decoder = msgspec.json.Decoder(TraceRecord)
    with path.open("rb") as file:
        _decode_header(path, file.readline())
        for number, line in enumerate(file, start=2):
            if not line.endswith(b"\n"):
                return
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                allowed = f"allowed: a trace of whole lines ({error})"
                raise InvalidInput("trace", f"{path}:{number}", allowed) from error


def replay(path: Path) -> int:
    """Run the controller over a trace's events; returns how many there are.

    Raises TraceMismatch at the first event that gives other actions than recorded, InvalidInput
    when the file is not a trace.
    """
    controller = Controller(read_header(path).config)
    encoder = msgspec.json.Encoder()
    count = 0
    for count, record in enumerate(read_trace(path), start=1):
        actions = controller.handle(record.event, record.t)
        if encoder.encode(actions) != encoder.encode(record.actions):
            raise TraceMismatch(_difference(count, record, actions))
    return count


def _difference(number: int, record: TraceRecord, actions: list[Action]) -> str:
    """Where the two lists of actions part, in words."""
    place = next(
        (i for i, (a, b) in enumerate(zip(record.actions, actions, strict=False)) if a != b),
        min(len(record.actions), len(actions)),
    )
    recorded = record.actions[place] if place < len(record.actions) else "no more actions"
    replayed = actions[place] if place < len(actions) else "no more actions"
    name = type(record.event).__name__
    return (
        f"event {number} ({name}, t={record.t}), action {place + 1}: "
        f"recorded {recorded}, replayed {replayed}"
    )


def _decode_header(path: Path, line: bytes) -> TraceHeader:
    try:
        header = msgspec.json.decode(line, type=TraceHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        allowed = f"allowed: a trace of seer ({error})"
        raise InvalidInput("trace", f"{path}:1", allowed) from error
    if (header.format, header.version) != (FORMAT, VERSION):
        found = f"{header.format} {header.version}"
        raise InvalidInput("trace", found, f"allowed: {FORMAT} {VERSION}")
    return header
