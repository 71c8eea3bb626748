import pytest

from seer.rollout.request_state import Flight, finish_reason, make_group
from seer.types import ChunkEnd, FinishReason, GroupSpec

SPEC = GroupSpec(group_id=3, group_size=2, num_prompt_tokens=5, max_tokens=8)


def _flight() -> Flight:
    return Flight(chunk_index=0, instance_id=0, max_tokens=4, keep_kv=True, loads=())


def test_a_chunk_adds_its_tokens_when_it_lands() -> None:
    """And the request waits again."""
    request = make_group(SPEC).requests[1]
    request.take_off(_flight())
    request.land(4)
    assert (request.num_generated, request.num_covered, request.num_chunks) == (4, 8, 1)
    assert not request.is_at_limit


def test_illegal_moves_are_refused() -> None:
    """No second chunk in flight, no second end."""
    request = make_group(SPEC).requests[0]
    request.take_off(_flight())
    with pytest.raises(AssertionError):
        request.take_off(_flight())
    request.finish()
    for move in (request.finish, lambda: request.take_off(_flight())):
        with pytest.raises(AssertionError):
            move()


@pytest.mark.parametrize(
    ("end", "num_tokens", "is_cancelled", "reason"),
    [
        (ChunkEnd.STOP, 3, False, FinishReason.STOP),
        (ChunkEnd.STOP, 3, True, FinishReason.STOP),
        (ChunkEnd.LENGTH, 8, False, FinishReason.LENGTH),
        (ChunkEnd.LENGTH, 8, True, FinishReason.LENGTH),
        (ChunkEnd.LENGTH, 4, False, None),
        (ChunkEnd.LENGTH, 4, True, FinishReason.CANCELLED),
        (ChunkEnd.ABORTED, 2, True, FinishReason.CANCELLED),
        (ChunkEnd.ABORTED, 2, False, None),
        (None, 2, False, None),
        (None, 8, False, FinishReason.LENGTH),
        (None, 2, True, FinishReason.CANCELLED),
    ],
)
def test_why_a_request_is_complete(
    *, end: ChunkEnd | None, num_tokens: int, is_cancelled: bool, reason: FinishReason | None
) -> None:
    """Its own end comes before a cancellation; a lost chunk (None) may have reached the limit."""
    group = make_group(SPEC)
    group.is_cancelled = is_cancelled
    request = group.requests[0]
    request.take_off(_flight())
    request.land(num_tokens)
    assert finish_reason(group, request, end) is reason
