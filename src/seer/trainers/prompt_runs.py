"""Groups out of a batch in which every prompt stands several times in a row."""

from collections.abc import Sequence
from typing import Any

from seer.errors import InvalidInput


def prompt_runs(prompts: Sequence[Any], group_size: int) -> list[Any]:
    """The prompt of each group; equal neighbours beyond a run are groups of the same prompt.

    Raises InvalidInput unless the batch is runs of exactly `group_size` equal prompts.
    """
    if not prompts or len(prompts) % group_size:
        allowed = f"allowed: a multiple of num_generations ({group_size}), and at least one group"
        raise InvalidInput("prompts", f"{len(prompts)} rows", allowed)
    for start in range(0, len(prompts), group_size):
        for row in range(start + 1, start + group_size):
            if prompts[row] != prompts[start]:
                raise InvalidInput(
                    "prompts",
                    f"rows {start} and {row} differ",
                    f"allowed: each prompt num_generations ({group_size}) times in a row",
                )
    return [prompts[start] for start in range(0, len(prompts), group_size)]
