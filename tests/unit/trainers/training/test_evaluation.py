"""Evaluation: the share of held-out items answered right."""

from collections.abc import Callable, Sequence
from itertools import count

from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.trainers.training.evaluation import Evaluator
from seer.trainers.training.items import Item
from seer.trainers.training.rewards import RewardBook
from unit.trainers.training.fakes import FakePool, group

ITEMS = [
    Item(data_set=0, index=place, task=task, question="Q", suffix="")
    for place, task in enumerate(("sums", "sums", "products", "products"))
]
TEXTS = ("right", "wrong", "right", "raise")


def test_accuracy_in_all_and_by_task() -> None:
    """A verifier that fails counts its response as wrong; groups may finish in any order."""

    def sample(prompts: Sequence[PromptItem], on_group: Callable[[GroupResult], None]) -> None:
        for place in reversed(range(len(prompts))):
            on_group(group(place, TEXTS[place]))

    book = RewardBook(FakePool(), reward_on_error=0.0, by_verifier=True)
    seconds = count(10.0, 2.5)
    row = Evaluator(ITEMS, book, lambda: next(seconds)).evaluate(4, sample)
    assert (row.step, row.accuracy, row.num_items, row.seconds) == (4, 0.5, 4, 2.5)
    assert row.accuracy_by_task == {"sums": 0.5, "products": 0.5}
