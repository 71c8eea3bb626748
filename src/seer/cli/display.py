"""What a running rollout shows: a live panel on a terminal, plain lines elsewhere.

Both draw the same `Status`; neither knows where it comes from. Written to stderr, so that stdout
holds the result alone.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

PLAIN_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """One instance at one moment."""

    instance_id: int
    num_running: int
    used_kv_tokens: int
    kv_capacity_tokens: int

    @property
    def kv_share(self) -> float:
        """Part of its KV memory in use."""
        return self.used_kv_tokens / self.kv_capacity_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A rollout at one moment."""

    elapsed_s: float
    num_requests: int
    num_finished_requests: int
    num_groups: int
    num_finished_groups: int
    num_output_tokens: int
    tokens_per_s: float
    tail_s: float | None
    """Time since nine tenths of the requests were finished; None before."""
    instances: tuple[InstanceStatus, ...]


@contextlib.contextmanager
def open_display(console: Console, title: str) -> Iterator[Callable[[Status], None]]:
    """A function that shows a new state, in the way that fits the console.

    The last state stays on the screen, however the block is left.
    """
    if console.is_terminal:
        with Live(Text(title), console=console, refresh_per_second=4) as live:
            yield lambda status: live.update(_panel(title, status))
    else:
        lines = PlainLines(console)
        lines.print(title)
        try:
            yield lines.update
        finally:
            lines.finish()


class PlainLines:
    """One line every few seconds, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed_s = 0.0
        self._unprinted: Status | None = None

    def update(self, status: Status) -> None:
        """Print the state, unless a line was printed just now."""
        self._unprinted = status
        if status.elapsed_s - self._printed_s >= PLAIN_INTERVAL_S:
            self._printed_s = status.elapsed_s
            self.finish()

    def finish(self) -> None:
        """Print the last state if no line shows it yet."""
        if self._unprinted is not None:
            self.print(plain_line(self._unprinted))
            self._unprinted = None

    def print(self, line: str) -> None:
        """Print a line as it is, whatever the width."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def plain_line(status: Status) -> str:
    """The state in one line."""
    kv = " ".join(f"{each.kv_share:.0%}" for each in status.instances)
    running = " ".join(str(each.num_running) for each in status.instances)
    return (
        f"{status.elapsed_s:7.1f}s  requests {status.num_finished_requests}/{status.num_requests}"
        f"  groups {status.num_finished_groups}/{status.num_groups}"
        f"  {_speed(status)}  KV [{kv}]  running [{running}]"
    )


def _panel(title: str, status: Status) -> Group:
    return Group(Text(title, style="bold"), _bars(status), Text(_speed(status)))


def _bars(status: Status) -> Table:
    grid = Table.grid(padding=(0, 1))
    for name, done, total in (
        ("requests", status.num_finished_requests, status.num_requests),
        ("groups", status.num_finished_groups, status.num_groups),
    ):
        grid.add_row(name, ProgressBar(total=total, completed=done, width=40), f"{done}/{total}")
    for each in status.instances:
        bar = ProgressBar(total=each.kv_capacity_tokens, completed=each.used_kv_tokens, width=40)
        note = f"{each.kv_share:.0%} of KV, {each.num_running} running"
        grid.add_row(f"instance {each.instance_id}", bar, note)
    return grid


def _speed(status: Status) -> str:
    tail = "" if status.tail_s is None else f", tail {status.tail_s:.0f}s"
    return f"{status.num_output_tokens} tokens, {status.tokens_per_s:.0f} tokens/s{tail}"
