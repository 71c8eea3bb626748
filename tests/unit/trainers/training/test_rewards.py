"""Rewards of a rollout: begun group by group, collected in the items' order."""

import pytest

from seer.errors import InvalidInput
from seer.trainers.training.items import Item
from seer.trainers.training.rewards import RewardBook
from unit.trainers.training.fakes import FakePool, group

ITEMS = [
    Item(data_set=0, index=place, task="sums", question=f"Q{place}", suffix="?")
    for place in range(3)
]


def test_samples_come_in_the_order_of_the_items() -> None:
    """Groups may finish in any order; their calls begin at once."""
    pool = FakePool()
    book = RewardBook(pool, reward_on_error=0.0)
    book.open(7, ITEMS[:2])
    book.add(1, group(1, "right", "wrong"))
    assert [call.prompt for call in pool.calls] == ["Q1?", "Q1?"]
    book.add(0, group(0, "wrong", "right"))
    samples = book.collect()
    assert [(each.item, each.member, each.reward) for each in samples] == [
        ("sums-0-0", 0, 0.0),
        ("sums-0-0", 1, 1.0),
        ("sums-0-1", 0, 1.0),
        ("sums-0-1", 1, 0.0),
    ]
    assert {each.step for each in samples} == {7}


def test_a_failed_call_counts_as_configured() -> None:
    """A response whose call raised gets the configured reward, and its reason is kept."""
    book = RewardBook(FakePool(), reward_on_error=-0.5)
    book.open(1, ITEMS[:1])
    book.add(0, group(0, "raise"))
    (sample,) = book.collect()
    assert (sample.reward, sample.is_correct, sample.error) == (-0.5, None, "ValueError: no")


def test_what_is_no_reward_names_its_sample() -> None:
    """NaN or another shape ends the run, with item, response and step in the message."""
    book = RewardBook(FakePool(), reward_on_error=0.0)
    book.open(3, ITEMS[:1])
    book.add(0, group(0, "right", "nan"))
    with pytest.raises(
        InvalidInput, match=r"got 'nan'.*item sums-0-0, response 1 of step 3: 'nan'"
    ):
        book.collect()


def test_a_book_is_opened_for_each_rollout() -> None:
    """What an interrupted rollout left is forgotten."""
    book = RewardBook(FakePool(), reward_on_error=0.0)
    book.open(1, ITEMS)
    book.add(2, group(2, "right"))
    book.open(2, ITEMS[:1])
    book.add(0, group(0, "wrong"))
    assert [sample.reward for sample in book.collect()] == [0.0]
