from dataclasses import dataclass

import pytest

from seer.scheduling.divided_policies import (
    GUARD_PERIOD,
    ContextAware,
    Divided,
    DividedPolicy,
    Oracle,
)
from seer.types import GroupSpec, RequestId


@dataclass(frozen=True)
class _Request:
    request_id: RequestId
    num_generated: int = 0
    max_tokens: int = 1000


def _group(group_id: int, known_lengths: tuple[int, ...] = ()) -> GroupSpec:
    return GroupSpec(
        group_id=group_id,
        group_size=3,
        num_prompt_tokens=10,
        max_tokens=1000,
        known_lengths=known_lengths,
    )


def _order(policy: DividedPolicy, *requests: _Request) -> list[tuple[int, int]]:
    ordered = sorted(requests, key=policy.order_key)
    return [(r.request_id.group, r.request_id.member) for r in ordered]


def _requests(*ids: tuple[int, int]) -> list[_Request]:
    return [_Request(RequestId(*id_)) for id_ in ids]


def test_divided_serves_groups_in_order() -> None:
    """And the members of a group in theirs."""
    assert _order(Divided(), *_requests((1, 0), (0, 1), (0, 2))) == [(0, 1), (0, 2), (1, 0)]


def test_a_chunk_is_the_chunk_size_or_what_is_left() -> None:
    """Algorithm 2, line 16."""
    assert Divided(300).chunk_tokens(_Request(RequestId(0, 0))) == 300
    assert Divided(300).chunk_tokens(_Request(RequestId(0, 0), num_generated=900)) == 100
    assert Divided(None).chunk_tokens(_Request(RequestId(0, 0), num_generated=900)) == 100


def test_the_oracle_serves_the_longest_first() -> None:
    """By true lengths over the whole life; ties by id."""
    policy = Oracle()
    policy.add_group(_group(0, (5, 900, 7)))
    policy.add_group(_group(1, (7, 8, 1)))
    requests = _requests((1, 1), (1, 0), (0, 2), (0, 1))
    assert _order(policy, *requests) == [(0, 1), (1, 1), (0, 2), (1, 0)]


@pytest.fixture
def policy() -> ContextAware:
    made = ContextAware(100)
    for group_id in range(3):
        made.add_group(_group(group_id))
    return made


def test_probes_come_first_and_the_shortest_of_them_before_the_others(
    policy: ContextAware,
) -> None:
    """A group's probe is its first member."""
    long_probe = _Request(RequestId(0, 0), num_generated=50)
    requests = [long_probe, *_requests((0, 1), (1, 0), (2, 1))]
    assert _order(policy, *requests) == [(1, 0), (0, 0), (0, 1), (2, 1)]


def test_the_rest_is_served_longest_estimate_first(policy: ContextAware) -> None:
    """A group is as long as its longest finished member; as its limit before there is one."""
    assert list(policy.finished(RequestId(0, 0), 300)) == [0]
    assert list(policy.finished(RequestId(1, 0), 400)) == [1]
    assert list(policy.finished(RequestId(1, 2), 100)) == []
    assert _order(policy, *_requests((0, 1), (1, 1), (2, 1))) == [(2, 1), (1, 1), (0, 1)]
    assert list(policy.finished(RequestId(0, 2), 900)) == [0]
    assert _order(policy, *_requests((0, 1), (1, 1))) == [(0, 1), (1, 1)]


def test_now_and_then_the_group_served_longest_ago_comes_first(policy: ContextAware) -> None:
    """Until one of its members starts."""
    changed = [list(policy.started(RequestId(i % 2, 1))) for i in range(GUARD_PERIOD)]
    assert changed[:-1] == [[]] * (GUARD_PERIOD - 1)
    assert changed[-1] == [2]
    requests = _requests((0, 0), (0, 1), (2, 1))
    assert _order(policy, *requests)[0] == (2, 1)
    assert list(policy.started(RequestId(2, 1))) == [2]
    assert _order(policy, *requests)[0] == (0, 0)


def test_a_finished_group_is_forgotten(policy: ContextAware) -> None:
    """Even when it is the one that comes first."""
    for _ in range(GUARD_PERIOD):
        policy.started(RequestId(0, 1))
    policy.remove_group(1)
    assert list(policy.started(RequestId(0, 1))) == []
