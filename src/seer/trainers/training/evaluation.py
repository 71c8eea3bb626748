"""Accuracy on held-out items: one response each, scored by the tasks' verifiers."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Protocol

from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.trainers.training.items import Item
from seer.trainers.training.rewards import RewardBook
from seer.trainers.training.step_row import EvaluationRow, mean_by_task


class Samples(Protocol):
    """Generates one response to each prompt with the weights as they are now."""

    def __call__(
        self, prompts: Sequence[PromptItem], on_group: Callable[[GroupResult], None]
    ) -> object:
        """`on_group` gets each response as soon as it is finished, under its prompt's id."""


class Evaluator:
    """Evaluates on the same items each time."""

    def __init__(self, items: Sequence[Item], book: RewardBook, now: Callable[[], float]) -> None:
        """`book` scores by the verifiers; `now` gives seconds, from any origin."""
        self._items = items
        self._book = book
        self._now = now

    def evaluate(self, step: int, sample: Samples) -> EvaluationRow:
        """Generate, score, count. A verifier that fails counts its response as wrong."""
        started_s = self._now()
        prompts = [
            PromptItem(prompt=item.messages, prompt_id=str(place))
            for place, item in enumerate(self._items)
        ]
        self._book.open(step, self._items)
        sample(prompts, lambda group: self._book.add(int(group.prompt_id), group))
        samples = self._book.collect()
        right = [(each.task, float(each.is_correct is True)) for each in samples]
        return EvaluationRow(
            step=step,
            accuracy=fmean(value for _, value in right),
            accuracy_by_task=mean_by_task(right),
            num_items=len(samples),
            mean_tokens=fmean(each.num_tokens for each in samples),
            seconds=self._now() - started_s,
        )
