"""Prompts from reasoning-gym: generated questions whose answers its verifiers can score.

What a reward needs later goes into the metadata: task, seed and index make the item again, `entry`
holds it as far as JSON can.
"""

import itertools

import msgspec

from seer.trainers.training.reasoning import open_data_set, plain_entry

TASKS_PREFIX = "reasoning-gym:"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One item of one task."""

    name: str
    seed: int
    index: int
    size: int
    """Items in the data set that it comes from."""
    entry: dict[str, object]

    @property
    def prompt_id(self) -> str:
        """Name of the prompt that it makes."""
        return f"{self.name}-{self.index}"

    def as_row(self) -> dict[str, object]:
        """The item as a row of a prompts file."""
        return {
            "id": self.prompt_id,
            "messages": [{"role": "user", "content": str(self.entry["question"])}],
            "task": self.name,
            "seed": self.seed,
            "index": self.index,
            "size": self.size,
            "entry": self.entry,
        }


def make_tasks(source: str, count: int, seed: int) -> list[Task]:
    """`count` items, dealt over the tasks that `source` names; `seed` decides all of them."""
    names = [name.strip() for name in source.removeprefix(TASKS_PREFIX).split(",")]
    size = -(-count // len(names))
    data_sets = [open_data_set(name, seed=seed, size=size, field="prompts") for name in names]
    items = (
        Task(name=name, seed=seed, index=index, size=size, entry=plain_entry(data_set[index]))
        for index in range(size)
        for name, data_set in zip(names, data_sets, strict=True)
    )
    return list(itertools.islice(items, count))
