"""What a running rollout shows: a live panel on a terminal, plain lines elsewhere."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seer.rollout.results import InstanceProgress, RolloutProgress

PLAIN_INTERVAL_S = 5.0


Show = Callable[[RolloutProgress], None]


@contextlib.contextmanager
def open_display(console: Console, title: str) -> Iterator[Show]:
    """A function that shows a new state, in the way that fits the console.

    The last state stays on the screen, however the block is left.
    """
    if console.is_terminal:
        with Live(Text(title), console=console, refresh_per_second=4) as live:
            yield lambda now: live.update(_panel(title, now))
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
        self._unprinted: str | None = None

    def update(self, now: RolloutProgress) -> None:
        """Print the state, unless a line was printed just now."""
        self._unprinted = plain_line(now)
        if now.elapsed_s - self._printed_s >= PLAIN_INTERVAL_S:
            self._printed_s = now.elapsed_s
            self.finish()

    def finish(self) -> None:
        """Print the last state if no line shows it yet."""
        if self._unprinted is not None:
            self.print(self._unprinted)
            self._unprinted = None

    def print(self, line: str) -> None:
        """Print a line as it is, whatever the width."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def plain_line(now: RolloutProgress) -> str:
    """The state in one line."""
    kv = " ".join(_kv_share(each) for each in now.instances)
    running = " ".join(str(each.num_in_flight) for each in now.instances)
    return (
        f"{now.elapsed_s:7.1f}s  requests {now.num_finished_requests}/{now.num_requests}"
        f"  groups {now.num_finished_groups}/{now.num_groups}"
        f"  {_speed(now)}  KV [{kv}]  running [{running}]"
    )


def _panel(title: str, now: RolloutProgress) -> Group:
    return Group(Text(title, style="bold"), _bars(now), Text(_speed(now)))


def _bars(now: RolloutProgress) -> Table:
    grid = Table.grid(padding=(0, 1))
    for name, done, total in (
        ("requests", now.num_finished_requests, now.num_requests),
        ("groups", now.num_finished_groups, now.num_groups),
    ):
        grid.add_row(name, ProgressBar(total=total, completed=done, width=40), f"{done}/{total}")
    for each in now.instances:
        bar = ProgressBar(total=each.kv_capacity_tokens, completed=each.used_kv_tokens, width=40)
        grid.add_row(f"instance {each.instance_id}", bar, _instance_note(each))
    return grid


def _instance_note(instance: InstanceProgress) -> str:
    if not instance.is_alive:
        return "lost, starting again"
    return f"{_kv_share(instance)} of KV, {instance.num_in_flight} running"


def _kv_share(instance: InstanceProgress) -> str:
    if not instance.is_alive:
        return "lost"
    return f"{instance.used_kv_tokens / instance.kv_capacity_tokens:.0%}"


def _speed(now: RolloutProgress) -> str:
    speed = now.num_output_tokens / now.elapsed_s if now.elapsed_s > 0 else 0.0
    parts = [f"{now.num_output_tokens} tokens", f"{speed:.0f} tokens/s"]
    if now.tail_s is not None:
        parts.append(f"tail {now.tail_s:.0f}s")
    if now.acceptance_length > 1:
        parts.append(f"{now.acceptance_length:.2f} tokens a step")
    if now.preemptions:
        parts.append(f"{now.preemptions} preemptions")
    return ", ".join(parts)
