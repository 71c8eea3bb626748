"""How KV objects split into blocks. Pure arithmetic; every other module asks here.

A request at rest with P prompt tokens and G > 0 generated ones has KV for its first P + G - 1
tokens: the last one is sampled, not fed yet. A fresh request builds on KV of P - 1 prompt tokens.
The prompt's object covers these P - 1 tokens; its full blocks are shared by all members on an
instance, its partial last block is copied into each member's first own block. So a request's own
blocks start after the shared ones and go to the end of what it covers.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Blocks that a request needs on an instance that holds nothing of it."""

    prompt: int
    """Blocks of its group's prompt; there once for all members."""
    own: int
    """Blocks of its own object."""


EMPTY = Footprint(prompt=0, own=0)


def covered_tokens(num_prompt_tokens: int, num_generated: int) -> int:
    """Tokens with KV when a request is at rest, counted from the first prompt token."""
    return num_prompt_tokens + num_generated - 1


def prompt_blocks(num_prompt_tokens: int, block_size: int) -> int:
    """Blocks of the prompt's object."""
    return _ceil_div(num_prompt_tokens - 1, block_size)


def shared_blocks(num_prompt_tokens: int, block_size: int) -> int:
    """Full blocks of the prompt, which members use by reference."""
    return (num_prompt_tokens - 1) // block_size


def own_blocks(num_prompt_tokens: int, num_covered: int, block_size: int) -> int:
    """Blocks of the request's own object when its KV covers `num_covered` tokens in all."""
    covering = _ceil_div(num_covered, block_size)
    return max(0, covering - shared_blocks(num_prompt_tokens, block_size))


def footprint(
    num_prompt_tokens: int, num_generated: int, chunk_tokens: int, block_size: int
) -> Footprint:
    """Blocks in use when a chunk that generates `chunk_tokens` (>= 1) ends.

    This is the chunk's peak: blocks are only added while it runs.
    """
    num_covered = covered_tokens(num_prompt_tokens, num_generated + chunk_tokens)
    return Footprint(
        prompt=prompt_blocks(num_prompt_tokens, block_size),
        own=own_blocks(num_prompt_tokens, num_covered, block_size),
    )


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
