"""Prompts from reasoning-gym: generated questions whose answers its verifiers can score.

The only importer of reasoning_gym. What a reward needs later goes into the metadata: task, seed and
index make the item again, `entry` holds it as far as JSON can.
"""

import difflib
import itertools
from typing import Any

import msgspec

from seer.errors import InvalidInput

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
    data_sets = [_data_set(source, name, seed, size) for name in names]
    items = (
        Task(name=name, seed=seed, index=index, size=size, entry=_plain(data_set[index]))
        for index in range(size)
        for name, data_set in zip(names, data_sets, strict=True)
    )
    return list(itertools.islice(items, count))


def _data_set(source: str, name: str, seed: int, size: int) -> Any:
    try:
        import reasoning_gym  # noqa: PLC0415
        from reasoning_gym.factory import DATASETS  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInput(
            "prompts", source, f"needs reasoning-gym: pip install 'seer-rl[tasks]' ({error})"
        ) from error
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=5) or sorted(DATASETS)[:5]
        raise InvalidInput(
            "prompts", name, f"allowed: one of {len(DATASETS)} tasks, such as {', '.join(near)}"
        )
    try:
        return reasoning_gym.create_dataset(name, seed=seed, size=size)
    except (AssertionError, ValueError) as error:  # its way to refuse a configuration
        raise InvalidInput(
            "prompts", name, f"allowed: a task that needs no configuration ({error})"
        ) from error


def _plain(entry: dict[str, Any]) -> dict[str, object]:
    """The entry in JSON's types; what JSON has no type for becomes text."""
    encoded = msgspec.json.encode(entry, enc_hook=str)
    return msgspec.json.decode(encoded, type=dict[str, object])
