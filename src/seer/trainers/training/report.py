"""Where a run tells a person what it does."""

from typing import Protocol

from seer.trainers.training.step_row import EvaluationRow, StepRow


class Report(Protocol):
    """A console, or whatever else is watched."""

    def say(self, line: str) -> None:
        """What is being done."""

    def step(self, row: StepRow) -> None:
        """A step is done."""

    def evaluation(self, row: EvaluationRow) -> None:
        """An evaluation is done."""
