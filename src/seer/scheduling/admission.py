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


def end_with_block(num_tokens: int, num_covered: int, block_size: int, left: int) -> int:
    """A chunk of `num_tokens`, cut so that its KV ends where a block does.

    What is reserved is whole blocks: tokens of a last block that the chunk does not reach would be
    held for nothing. `num_covered` tokens have KV when it starts, `left` may be generated in all.
    A chunk that may be the last one, or does not reach a block's end, stays as it is.
    # Paper silent: the relation of chunks and blocks.
    """
    beyond = (num_covered + num_tokens) % block_size
    return num_tokens - beyond if beyond < num_tokens < left else num_tokens
