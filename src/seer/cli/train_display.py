"""What a training run shows: a line for each step, and on a terminal a bar below them."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from seer.trainers.training.config import TrainConfig
from seer.trainers.training.step_row import EvaluationRow, StepRow


class TrainDisplay:
    """Prints steps and evaluations as they come."""

    def __init__(self, console: Console, on_step: Callable[[int], None]) -> None:
        """`on_step` is told the number of each finished step."""
        self._console = console
        self._on_step = on_step

    def say(self, line: str) -> None:
        """What is being done."""
        self._print(f"seer: {line}")

    def step(self, row: StepRow) -> None:
        """A step is done."""
        self._print(step_line(row))
        self._on_step(row.step)

    def evaluation(self, row: EvaluationRow) -> None:
        """An evaluation is done."""
        self._print(evaluation_line(row))

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextlib.contextmanager
def open_train_display(console: Console, config: TrainConfig) -> Iterator[TrainDisplay]:
    """A display that fits the console; the bar is left as it was when the block ends."""
    if not console.is_terminal:
        yield TrainDisplay(console, lambda _: None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("steps", total=config.steps)
        yield TrainDisplay(console, lambda step: progress.update(bar, completed=step))


def step_line(row: StepRow) -> str:
    """A step in one line: the reward, the lengths, and where its seconds went."""
    parts = {
        "rollout": row.rollout_s,
        "reward wait": row.reward_wait_s,
        "train": row.train_s,
        "update": row.weight_update_s,
        "check": row.check_s,
        "other": row.other_s,
    }
    shares = " ".join(f"{name} {_share(part, row.total_s)}" for name, part in parts.items())
    notes = (
        [f"|Δ log-prob| {row.max_logprob_delta:.1e}"] if row.max_logprob_delta is not None else []
    )
    if row.num_reward_errors:
        notes.append(f"{row.num_reward_errors} rewards failed")
    return "  ".join(
        [
            f"step {row.step:4d}",
            f"reward {row.reward:.3f}",
            f"{row.mean_tokens:.0f} tokens, {row.tokens_per_s:.0f}/s",
            f"{row.total_s:.1f} s: {shares}",
            *notes,
        ]
    )


def evaluation_line(row: EvaluationRow) -> str:
    """An evaluation in one line."""
    by_task = ", ".join(f"{task} {value:.3f}" for task, value in row.accuracy_by_task.items())
    return (
        f"step {row.step:4d}  accuracy {row.accuracy:.3f} on {row.num_items} held-out items "
        f"({by_task})  {row.mean_tokens:.0f} tokens  {row.seconds:.1f} s"
    )


def _share(part: float, total: float) -> str:
    return f"{part / total:.0%}" if total > 0 else "-"
