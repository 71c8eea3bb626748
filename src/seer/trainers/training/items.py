"""Training items and held-out items: which question of which task, and in what order.

All of it follows from the settings, so a resumed run, or a reward process, makes the same items.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from seer.errors import InvalidInput
from seer.trainers.training.answers import default_suffix
from seer.trainers.training.config import TaskConfig, TrainConfig
from seer.trainers.training.reasoning import DataSet, open_data_set

SEED_STRIDE = 1_000_000
"""Distance of the seeds of data sets: items are made from `seed + index`, and must not meet."""
TRIES = 20
"""Questions made for each item wanted, before a task counts as too small."""


class DataSetRef(msgspec.Struct, frozen=True, kw_only=True):
    """What makes one data set again, in any process."""

    task: TaskConfig
    seed: int
    size: int

    def open(self) -> DataSet:
        """The data set. Raises InvalidInput as its task's name or parameters are refused."""
        return open_data_set(
            self.task.name, seed=self.seed, size=self.size, params=self.task.params, field="tasks"
        )


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One question."""

    data_set: int
    """Place of its data set among `ItemSet.data_sets`."""
    index: int
    """Its place there."""
    task: str
    question: str
    suffix: str

    @property
    def item_id(self) -> str:
        """Its name in files and messages."""
        return f"{self.task}-{self.data_set}-{self.index}"

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt, as a chat."""
        return [{"role": "user", "content": self.question + self.suffix}]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSet:
    """All items of a run."""

    data_sets: tuple[DataSetRef, ...]
    train: tuple[Item, ...]
    held_out: tuple[Item, ...]

    @property
    def task_names(self) -> tuple[str, ...]:
        """The tasks, each once, in the order of the settings."""
        return tuple(dict.fromkeys(ref.task.name for ref in self.data_sets))


def make_items(config: TrainConfig) -> ItemSet:
    """Make the items of a run; no training item asks a held-out question.

    Held-out items do not depend on the run's seed, so runs with different seeds are evaluated on
    the same ones. Raises InvalidInput for an unknown task, refused parameters, or a task that has
    too few different questions.
    """
    weights = [task.weight for task in config.tasks]
    held_out_counts = _counts(deal(weights, config.held_out_items), len(weights))
    train_counts = _counts(deal(weights, config.num_items), len(weights))
    held_out_refs = [
        _ref(task, block=place, wanted=count)
        for place, (task, count) in enumerate(zip(config.tasks, held_out_counts, strict=True))
    ]
    first_block = (1 + config.seed) * len(config.tasks)
    train_refs = [
        _ref(task, block=first_block + place, wanted=count)
        for place, (task, count) in enumerate(zip(config.tasks, train_counts, strict=True))
    ]
    held_out = _dealt(deal(weights, config.held_out_items), _streams(held_out_refs, 0, frozenset()))
    asked = frozenset(item.question for item in held_out)
    streams = _streams(train_refs, len(held_out_refs), asked)
    train = _dealt(deal(weights, config.num_items), streams)
    refs = (*held_out_refs, *train_refs)
    return ItemSet(data_sets=refs, train=train, held_out=held_out)


def deal(weights: Sequence[float], count: int) -> list[int]:
    """`count` places among `len(weights)` in a mixed order, each in proportion to its weight."""
    total = sum(weights)
    dealt = [0] * len(weights)
    places = []
    for number in range(1, count + 1):
        behind = [weight / total * number - had for weight, had in zip(weights, dealt, strict=True)]
        place = behind.index(max(behind))
        dealt[place] += 1
        places.append(place)
    return places


def order_of(num_items: int, seed: int) -> Iterator[int]:
    """Places of items without end: every pass takes each once, in an order of its own.

    A longer run begins as a shorter one does.
    """
    for number in itertools.count():
        yield from random.Random(f"{seed}/{number}").sample(range(num_items), num_items)  # noqa: S311 - not for secrets


def _counts(places: Sequence[int], num_tasks: int) -> list[int]:
    return [places.count(place) for place in range(num_tasks)]


def _ref(task: TaskConfig, *, block: int, wanted: int) -> DataSetRef:
    size = TRIES * max(wanted, 1)
    return DataSetRef(task=task, seed=block * SEED_STRIDE % 2**32, size=size)


def _streams(
    refs: Sequence[DataSetRef], first_place: int, excluded: frozenset[str]
) -> list[Iterator[Item]]:
    return [
        _items(ref, ref.open(), first_place + place, excluded) for place, ref in enumerate(refs)
    ]


def _items(
    ref: DataSetRef, data_set: DataSet, place: int, excluded: frozenset[str]
) -> Iterator[Item]:
    """The data set's items in order, but for the excluded questions."""
    suffix = default_suffix(ref.task.answer) if ref.task.suffix is None else ref.task.suffix
    for index in range(ref.size):
        entry: dict[str, Any] = data_set[index]
        question = str(entry["question"])
        if question not in excluded:
            yield Item(
                data_set=place, index=index, task=ref.task.name, question=question, suffix=suffix
            )
    allowed = (
        "allowed: fewer held-out items, or parameters with more different questions; "
        "hardly any question is left that is not held out"
    )
    raise InvalidInput("tasks", ref.task.name, allowed)


def _dealt(places: Sequence[int], streams: Sequence[Iterator[Item]]) -> tuple[Item, ...]:
    return tuple(next(streams[place]) for place in places)
