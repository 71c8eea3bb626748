"""Which traces a command line names, and what they are called.

`TRACE` is a file, or a directory: that of `seer rollout --out`, with one trace in it, or any other,
all of whose .jsonl files are traces (`seer simulate --trace`). `NAME=TRACE` gives a name. Otherwise
a trace is called like its file, or like its directory when the file is called trace.jsonl.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seer.errors import InvalidInput
from seer.report.timeline import Timeline
from seer.report.timeline_builder import TimelineBuilder
from seer.rollout.trace import read_header, read_trace

_ALLOWED = "allowed: a trace file, or a directory with trace.jsonl in it"


@dataclass(frozen=True, slots=True)
class TraceSource:
    """One trace and its name."""

    label: str
    path: Path


def find_traces(arguments: Sequence[str]) -> list[TraceSource]:
    """The traces named. Raises InvalidInput for what is none, and for two of one name."""
    sources = [source for argument in arguments for source in _expand(argument)]
    if not sources:
        raise InvalidInput("trace", None, _ALLOWED)
    labels = [source.label for source in sources]
    for source in sources:
        if labels.count(source.label) > 1:
            allowed = "allowed: different names; NAME=TRACE gives one"
            raise InvalidInput("trace", f"{source.label} ({source.path})", allowed)
    return sources


def find_trace(argument: str) -> Path:
    """The one trace named. Raises InvalidInput for none or several."""
    sources = _expand(argument)
    if len(sources) != 1:
        raise InvalidInput("trace", argument, f"allowed: one of {_names(sources)}")
    return sources[0].path


def read_timeline(path: Path) -> Timeline:
    """The timeline of a trace. Raises InvalidInput when it is not one, or has no groups."""
    try:
        builder = TimelineBuilder(read_header(path).config)
        for record in read_trace(path):
            builder.add(record)
    except OSError as error:
        raise InvalidInput("trace", str(path), f"{_ALLOWED} ({error})") from error
    except LookupError as error:  # a request, group or instance that no earlier line has named
        allowed = f"allowed: a trace with its first lines (unknown: {error})"
        raise InvalidInput("trace", str(path), allowed) from error
    if not builder.has_groups:
        raise InvalidInput("trace", str(path), "allowed: a trace in which groups were submitted")
    return builder.result()


def _expand(argument: str) -> list[TraceSource]:
    path, label = Path(argument), ""
    if not path.exists() and "=" in argument:
        label, _, rest = argument.partition("=")
        path = Path(rest)
    if path.is_dir():
        sources = _in_directory(path)
    elif path.is_file():
        sources = [TraceSource(_label(path), path)]
    else:
        raise InvalidInput("trace", argument, _ALLOWED)
    if label and len(sources) > 1:
        raise InvalidInput("trace", argument, f"allowed: one of {_names(sources)}")
    return [TraceSource(label, sources[0].path)] if label else sources


def _in_directory(directory: Path) -> list[TraceSource]:
    """A rollout's trace; the traces of all its sessions are several, each with its own clock."""
    own = sorted(directory.glob("trace*.jsonl"))
    if len(own) > 1:
        listed = ", ".join(str(path) for path in own)
        raise InvalidInput("trace", str(directory), f"allowed: one of {listed}")
    found = own or sorted(directory.glob("*.jsonl"))
    if not found:
        raise InvalidInput("trace", str(directory), _ALLOWED)
    return [TraceSource(_label(path), path) for path in found]


def _label(path: Path) -> str:
    is_rollout = path.name == "trace.jsonl"
    return (path.absolute().parent.name if is_rollout else path.stem) or path.stem


def _names(sources: Sequence[TraceSource]) -> str:
    return ", ".join(str(source.path) for source in sources)
