from hypothesis import given
from hypothesis import strategies as st

from seer.kvpool.blocks import (
    Footprint,
    covered_tokens,
    footprint,
    own_blocks,
    prompt_blocks,
    shared_blocks,
)


def test_a_request_at_rest_has_no_kv_for_its_last_token() -> None:
    """The last token is sampled, not fed; a fresh request builds on P - 1 prompt tokens."""
    assert covered_tokens(10, 0) == 9
    assert covered_tokens(10, 5) == 14


def test_full_blocks_of_the_prompt_are_shared_and_the_partial_one_is_copied() -> None:
    """10 prompt tokens: 9 covered, two full blocks of 4 and one partial."""
    assert prompt_blocks(10, 4) == 3
    assert shared_blocks(10, 4) == 2
    assert own_blocks(10, 9, 4) == 1
    assert own_blocks(10, 12, 4) == 1
    assert own_blocks(10, 13, 4) == 2


def test_a_prompt_that_ends_with_a_block_gives_members_nothing_to_copy() -> None:
    """9 prompt tokens: 8 covered."""
    assert prompt_blocks(9, 4) == shared_blocks(9, 4) == 2
    assert own_blocks(9, 8, 4) == 0
    assert own_blocks(9, 9, 4) == 1


def test_a_prompt_of_one_token_has_no_kv_of_its_own() -> None:
    """Its only token is fed by each member's first step."""
    assert prompt_blocks(1, 4) == 0
    assert footprint(1, 0, 4, 4) == Footprint(prompt=0, own=1)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 60), st.integers(1, 17))
def test_footprint_counts_the_blocks_that_the_tokens_touch(
    prompt: int, generated: int, chunk: int, size: int
) -> None:
    """Against sets of block numbers."""
    in_prompt = {t // size for t in range(prompt - 1)}
    full = {b for b in in_prompt if (b + 1) * size <= prompt - 1}
    touched = {t // size for t in range(prompt + generated + chunk - 1)}
    wanted = Footprint(prompt=len(in_prompt), own=len(touched - full))
    assert footprint(prompt, generated, chunk, size) == wanted
