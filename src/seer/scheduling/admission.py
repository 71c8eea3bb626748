"""Whether a chunk may start on an instance, and how long it is.

A chunk is admitted only where everything that it will need is free, or can be freed by moving idle
KV out: so nothing that runs is ever preempted. # Paper silent: the formula. Ours counts blocks:
prompt + generated + chunk.
"""

from seer.types import InstanceView


def can_admit(view: InstanceView) -> bool:
    """Whether the chunk fits on the instance, by concurrency and by KV blocks."""
    return view.has_slot and view.needed_blocks <= view.free_blocks + view.reclaimable_blocks


def chunk_tokens(chunk_size: int | None, num_generated: int, max_tokens: int) -> int:
    """Tokens of a request's next chunk (paper Algorithm 2, line 16); no size: all that is left."""
    left = max_tokens - num_generated
    return left if chunk_size is None else min(chunk_size, left)
