"""The output directory: writable, and empty or one that an interrupted rollout left."""

from pathlib import Path

from seer.cli.journal import JOURNAL_NAME
from seer.directories import writable_directory
from seer.errors import InvalidInput


def open_out_dir(out: str, *, resume: bool) -> Path:
    """Make or check the directory. Raises InvalidInput when results cannot go there."""
    path = writable_directory(out)
    has_journal = (path / JOURNAL_NAME).exists()
    if resume and not has_journal:
        raise InvalidInput("resume", out, f"allowed: a directory with {JOURNAL_NAME} in it")
    if not resume and any(path.iterdir()):
        hint = "or --resume to go on with its rollout" if has_journal else "or another one"
        raise InvalidInput("out", out, f"allowed: an empty directory, {hint}")
    return path


def trace_path(directory: Path) -> Path:
    """Name of this run's trace: trace.jsonl, and trace-2.jsonl, ... for resumptions."""
    number = 1 + len(list(directory.glob("trace*.jsonl")))
    return directory / ("trace.jsonl" if number == 1 else f"trace-{number}.jsonl")
