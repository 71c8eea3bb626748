"""The only importer of reasoning_gym: data sets of generated questions, with their verifiers.

An item is made from `seed + index` by most tasks, so data sets whose seeds lie close share items.
"""

import difflib
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from seer.errors import InvalidInput


class DataSet(Protocol):
    """What is used of a data set of reasoning_gym."""

    def __len__(self) -> int:
        """Number of items."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        """An item: `question`, `answer`, `metadata`."""

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """The verifier: 1 for a right answer, down to 0."""


def open_data_set(
    name: str, *, seed: int, size: int, params: Mapping[str, Any] | None = None, field: str
) -> DataSet:
    """A data set of one task. Raises InvalidInput that blames `field` for a bad name or parameter.

    Needs the extra `tasks`.
    """
    try:
        import reasoning_gym  # noqa: PLC0415 - optional, slow
        from reasoning_gym.factory import DATASETS  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInput(
            field, name, f"needs reasoning-gym: pip install 'seer-rl[tasks]' ({error})"
        ) from error
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=5) or sorted(DATASETS)[:5]
        raise InvalidInput(
            field, name, f"allowed: one of {len(DATASETS)} tasks, such as {', '.join(near)}"
        )
    given = dict(params or {})
    try:
        data_set: DataSet = reasoning_gym.create_dataset(name, seed=seed, size=size, **given)
    except (AssertionError, ValueError, TypeError) as error:  # its ways to refuse a configuration
        if given:
            raise InvalidInput(field, f"{name} {given}", f"not accepted by it: {error}") from error
        allowed = f"allowed: a task that needs no configuration ({error})"
        raise InvalidInput(field, name, allowed) from error
    return data_set


def plain_entry(entry: Mapping[str, Any]) -> dict[str, object]:
    """The entry in JSON's types; what JSON has no type for becomes text."""
    encoded = msgspec.json.encode(entry, enc_hook=str)
    return msgspec.json.decode(encoded, type=dict[str, object])
