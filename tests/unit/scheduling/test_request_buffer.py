from hypothesis import given
from hypothesis import strategies as st

from seer.scheduling.request_buffer import RequestBuffer
from seer.types import RequestId

A, B, C = RequestId(0, 0), RequestId(0, 1), RequestId(1, 0)


def test_the_least_key_is_next_and_ties_go_by_id() -> None:
    """Whatever the order of arrival."""
    buffer = RequestBuffer()
    buffer.add(C, (1,))
    buffer.add(B, (2,))
    buffer.add(A, (2,))
    assert [buffer.pop() for _ in range(4)] == [C, A, B, None]


def test_a_new_key_replaces_the_old_one() -> None:
    """What is known of a group may change while its requests wait."""
    buffer = RequestBuffer()
    buffer.add(A, (1,))
    buffer.add(B, (2,))
    buffer.add(A, (3,))
    assert len(buffer) == 2
    assert buffer.key(A) == (3,)
    assert [buffer.pop(), buffer.pop(), buffer.pop()] == [B, A, None]


def test_a_discarded_request_does_not_come_up() -> None:
    """Unless it is added again."""
    buffer = RequestBuffer()
    buffer.add(A, (1,))
    buffer.discard(A)
    buffer.discard(C)
    assert buffer.head() is None
    assert A not in buffer
    buffer.add(A, (1,))
    assert buffer.head() == A
    assert buffer.pop() == A
    assert buffer.pop() is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 3))))
def test_it_agrees_with_a_sorted_list(steps: list[tuple[int, int, int]]) -> None:
    """Over random operations."""
    buffer, plain = RequestBuffer(), dict[RequestId, int]()
    for operation, member, key in steps:
        request_id = RequestId(0, member)
        if operation == 0:
            buffer.add(request_id, (key,))
            plain[request_id] = key
        elif operation == 1:
            buffer.discard(request_id)
            plain.pop(request_id, None)
        else:
            expected = min(plain, key=lambda r: (plain[r], r), default=None)
            assert buffer.pop() == expected
            if expected is not None:
                del plain[expected]
        assert len(buffer) == len(plain)
        assert buffer.head() == min(plain, key=lambda r: (plain[r], r), default=None)


def test_a_request_set_aside_is_passed_over_until_it_is_restored() -> None:
    """It waits on: it may be given a new key, or be taken out, meanwhile."""
    buffer = RequestBuffer()
    ids = [RequestId(0, member) for member in range(4)]
    for place, request_id in enumerate(ids):
        buffer.add(request_id, (place,))
    for _ in range(3):
        buffer.set_aside()
    assert buffer.head() == ids[3]
    assert len(buffer) == 4
    assert buffer.key(ids[0]) == (0,)
    buffer.add(ids[1], (9,))
    buffer.discard(ids[2])
    buffer.restore()
    assert [buffer.pop() for _ in range(4)] == [ids[0], ids[3], ids[1], None]
