"""`seer report`: a page about rollouts, from their traces; `seer trace`: one trace looked into."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from seer.cli.messages import tell
from seer.errors import InvalidInput
from seer.report.layout import Entry
from seer.report.page import MAX_TRACES, render_page
from seer.report.perfetto import write_perfetto
from seer.report.sources import find_trace, find_traces, read_timeline
from seer.report.timeline import Timeline
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.trace import replay as replay_trace

_TRACE = "trace, or directory of `seer rollout --out`"


def make_report(
    traces: Annotated[list[str], typer.Argument(help=f"{_TRACE}; NAME=TRACE names it")],
    *,
    out: Annotated[str, typer.Option(help="file for the page (HTML)")] = "report.html",
    title: Annotated[str, typer.Option(help="heading of the page")] = "Rollout report",
) -> None:
    """Make one self-contained HTML page from one or more traces."""
    path = _output("out", out)
    sources = find_traces(traces)
    if len(sources) > MAX_TRACES:
        raise InvalidInput("traces", len(sources), f"allowed: at most {MAX_TRACES}")
    entries = []
    for source in sources:
        tell(f"reading {source.path}")
        entries.append(Entry(source.label, read_timeline(source.path)))
    page = render_page(title, entries).encode()
    _write("out", path, page)
    typer.echo(f"made: {out} ({len(page) / 1e3:,.0f} kB); open it in a browser")


def show_trace(
    trace: Annotated[str, typer.Argument(help=_TRACE)],
    *,
    perfetto: Annotated[
        str | None, typer.Option(help="file for the trace as ui.perfetto.dev opens it (JSON)")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="check that the controller gives the same actions")
    ] = False,
) -> None:
    """Print a trace's metrics; export it for Perfetto; replay it through the controller."""
    output = None if perfetto is None else _output("perfetto", perfetto)
    path = find_trace(trace)
    timeline = read_timeline(path)
    for line in metrics_lines(timeline.metrics):
        typer.echo(line)
    if output is not None:
        _export(timeline, output)
    if replay:
        typer.echo(f"replayed: {replay_trace(path):,} events, the same actions")


def metrics_lines(metrics: RolloutMetrics) -> Sequence[str]:
    """A line a metric: its name and value."""
    values = msgspec.structs.asdict(metrics)
    width = max(map(len, values))
    return [f"{name:{width}}  {_shown(value)}" for name, value in values.items()]


def _export(timeline: Timeline, output: Path) -> None:
    try:
        with output.open("wb") as file:
            count = write_perfetto(timeline, file)
    except OSError as error:
        raise _not_writable("perfetto", output, error) from error
    typer.echo(f"made: {output}, {count:,} events; open it at https://ui.perfetto.dev")


def _output(field: str, name: str) -> Path:
    """The file to write. Raises InvalidInput, before any work, when it cannot be one."""
    path = Path(name)
    if not name or path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(field, name, "allowed: a file in an existing directory")
    return path


def _write(field: str, path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise _not_writable(field, path, error) from error


def _not_writable(field: str, path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(field, str(path), f"allowed: a file that can be written ({error.strerror})")


def _shown(value: float | tuple[float, ...]) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
