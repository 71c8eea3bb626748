"""Items: which questions a run trains and is evaluated on."""

from itertools import islice
from typing import Any

import pytest

from seer.errors import InvalidInput
from seer.trainers.training.config import TaskConfig, TrainConfig
from seer.trainers.training.items import deal, make_items, order_of

ONE_DIGIT = {"max_terms": 2, "max_digits": 1}
CHAIN_SUM = TaskConfig(name="chain_sum", params=ONE_DIGIT, suffix=" End.")


def config(*tasks: TaskConfig, **settings: Any) -> TrainConfig:
    return TrainConfig(tasks=list(tasks), **{"num_items": 40, "held_out_items": 60, **settings})


def test_tasks_are_dealt_by_weight() -> None:
    """Places come in proportion to the weights, mixed, from the first one on."""
    places = deal([1.0, 3.0], 8)
    assert places.count(0) == 2
    assert places[:4].count(1) == 3


def test_every_pass_takes_each_item_once_in_its_own_order() -> None:
    """Orders differ between passes and seeds; a longer run begins as a shorter one does."""
    first, second = list(islice(order_of(20, 0), 20)), list(islice(order_of(20, 0), 20, 40))
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert first != list(islice(order_of(20, 1), 20))


class TestItems:
    @pytest.fixture(autouse=True)
    def _needs_tasks(self) -> None:
        pytest.importorskip("reasoning_gym")

    def test_no_training_item_asks_a_held_out_question(self) -> None:
        """With few different questions too, held-out ones are not trained on."""
        items = make_items(config(CHAIN_SUM))
        asked = {item.question for item in items.held_out}
        assert len(items.held_out) == 60
        assert len(items.train) == 40
        assert not asked & {item.question for item in items.train}

    def test_the_seed_decides_the_training_items_only(self) -> None:
        """Runs with different seeds train on other items and are evaluated on the same."""
        first, again, other = (make_items(config(CHAIN_SUM, seed=seed)) for seed in (0, 0, 1))
        assert first == again
        assert first.held_out == other.held_out
        assert first.train != other.train

    def test_an_item_can_be_made_again(self) -> None:
        """Data set and index lead to the question, in any process."""
        items = make_items(config(CHAIN_SUM, TaskConfig(name="products")))
        for item in items.train[:4]:
            assert items.data_sets[item.data_set].open()[item.index]["question"] == item.question

    def test_the_prompt_ends_with_the_suffix(self) -> None:
        """A task's own suffix, or one that asks for its form of the answer."""
        own, default = make_items(config(CHAIN_SUM, TaskConfig(name="products"))).train[:2]
        assert own.messages[0]["content"] == f"{own.question} End."
        assert "<answer>" in default.messages[0]["content"]

    @pytest.mark.parametrize(
        ("task", "named"),
        [
            (TaskConfig(name="chain_sums"), "tasks: got 'chain_sums'.*chain_sum"),
            (TaskConfig(name="chain_sum", params={"max_terms": 1}), "not accepted by it"),
            (TaskConfig(name="chain_sum", params={"depth": 1}), "not accepted by it.*depth"),
        ],
    )
    def test_bad_tasks_are_named(self, task: TaskConfig, named: str) -> None:
        """Unknown tasks and refused parameters are named, with near names where there are any."""
        with pytest.raises(InvalidInput, match=named):
            make_items(config(task))

    def test_a_task_with_too_few_questions_is_refused(self) -> None:
        """When every question is held out, nothing is left to train on."""
        few = TaskConfig(name="products", params=ONE_DIGIT)
        with pytest.raises(InvalidInput, match="hardly any question is left"):
            make_items(config(few, held_out_items=2000))
