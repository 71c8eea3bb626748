import random
from dataclasses import dataclass

import pytest

from seer.scheduling.open_groups import PROMPT_SHARE
from seer.scheduling.seer_policy import (
    CHUNKS_A_RESPONSE,
    FEWEST_CHUNKS_A_LIMIT,
    MIN_CHUNK,
    MOST_CHUNKS_A_LIMIT,
    SeerPolicy,
)
from seer.types import GroupSpec, RequestId

LIMIT = 9600


@dataclass(frozen=True)
class _Request:
    request_id: RequestId
    num_generated: int = 0
    max_tokens: int = LIMIT


@pytest.fixture
def policy() -> SeerPolicy:
    made = SeerPolicy(1000)
    made.resized(100_000)
    for group in range(4):
        made.add_group(
            GroupSpec(group_id=group, group_size=4, num_prompt_tokens=9, max_tokens=LIMIT)
        )
    return made


def _first(policy: SeerPolicy, *requests: _Request) -> tuple[int, int]:
    first = min(requests, key=policy.order_key).request_id
    return (first.group, first.member)


def test_every_group_starts_one_member_before_any_starts_two(policy: SeerPolicy) -> None:
    """A probe has no priority any more once it has run a chunk."""
    assert _first(policy, _Request(RequestId(0, 1)), _Request(RequestId(3, 0))) == (3, 0)
    going_on = _Request(RequestId(0, 0), num_generated=200)
    assert _first(policy, going_on, _Request(RequestId(3, 0))) == (3, 0)


def test_members_of_a_group_known_to_be_short_wait_for_the_unknown(policy: SeerPolicy) -> None:
    """Who may have a long way to go comes first."""
    for member in range(3):
        policy.finished(RequestId(0, member), 100)
    assert _first(policy, _Request(RequestId(0, 3)), _Request(RequestId(1, 3))) == (1, 3)


def test_who_has_less_left_waits(policy: SeerPolicy) -> None:
    """At the same upper length, the one that has come further is served later."""
    policy.progressed(RequestId(0, 1), 9000)
    done, begun = _Request(RequestId(0, 1), 9000), _Request(RequestId(1, 1), 0)
    assert _first(policy, done, begun) == (1, 1)


def test_among_equals_the_one_with_more_tokens_goes_on(policy: SeerPolicy) -> None:
    """So that requests do not take each other's memory in turns."""
    policy.progressed(RequestId(0, 1), 10)
    assert _first(policy, _Request(RequestId(0, 1), 10), _Request(RequestId(1, 1))) == (0, 1)


def test_a_group_waits_until_its_prompt_has_room() -> None:
    """Prompts of groups under way leave most of the memory to responses."""
    policy = SeerPolicy(1000)
    assert policy.resized(int(7000 / PROMPT_SHARE)) == []
    for group in range(3):
        policy.add_group(
            GroupSpec(group_id=group, group_size=4, num_prompt_tokens=6000, max_tokens=LIMIT)
        )
    assert _first(policy, _Request(RequestId(1, 0)), _Request(RequestId(0, 3))) == (0, 3)
    assert policy.remove_group(0) == [1]
    assert _first(policy, _Request(RequestId(1, 3)), _Request(RequestId(2, 0))) == (1, 3)


def test_a_chunk_is_a_small_part_of_the_limit(policy: SeerPolicy) -> None:
    """A little longer for who has much, never more than the chunk size, never uselessly short."""
    request = RequestId(0, 0)
    assert policy.chunk_tokens(_Request(request)) == LIMIT // MOST_CHUNKS_A_LIMIT
    assert policy.chunk_tokens(_Request(request, 1200)) == 1200 // CHUNKS_A_RESPONSE
    assert policy.chunk_tokens(_Request(request, 4000)) == LIMIT // FEWEST_CHUNKS_A_LIMIT
    assert SeerPolicy(50).chunk_tokens(_Request(RequestId(0, 0))) == 50
    assert SeerPolicy(None).chunk_tokens(_Request(RequestId(0, 0), 0, 64)) == MIN_CHUNK
    assert policy.chunk_tokens(_Request(RequestId(0, 0), LIMIT - 5)) == 5


def test_a_new_fit_moves_all_groups_and_other_news_its_own(policy: SeerPolicy) -> None:
    """As keys are asked again for the groups named only."""
    assert list(policy.progressed(RequestId(2, 1), 50)) == [2]
    assert sorted(policy.finished(RequestId(2, 1), 60)) == [0, 1, 2, 3]
    policy.remove_group(2)
    changed = [tuple(sorted(policy.finished(RequestId(1, m), 80))) for m in range(3)]
    assert set(changed) <= {(1,), (0, 1, 3)}


def test_keys_change_only_in_groups_that_are_named() -> None:
    """Whatever ends or goes on: who is not named would get the key that it has."""
    rng = random.Random(3)
    policy = SeerPolicy(200)
    policy.resized(100_000)
    for group in range(40):
        prior = 2000.0 if group % 10 == 0 else None
        policy.add_group(
            GroupSpec(
                group_id=group,
                group_size=4,
                num_prompt_tokens=9,
                max_tokens=LIMIT,
                prior_tokens=prior,
            )
        )
    tokens = {RequestId(group, member): 0 for group in range(40) for member in range(4)}
    lengths = {request: rng.randrange(100, 3000) for request in tokens}
    keys = {request: policy.order_key(_Request(request)) for request in tokens}
    num_spared = 0
    while tokens:
        request = rng.choice(sorted(tokens)[: rng.choice((8, 200))])
        del keys[request]
        tokens[request] = min(tokens[request] + 200, lengths[request])
        if tokens[request] < lengths[request]:
            changed = set(policy.progressed(request, tokens[request]))
            keys[request] = policy.order_key(_Request(request, tokens[request]))
        else:
            del tokens[request]
            changed = set(policy.finished(request, lengths[request]))
            num_spared += 1 < len(changed) < len({each.group for each in tokens})
        now = {each: policy.order_key(_Request(each, tokens[each])) for each in tokens}
        assert all(now[each] == keys[each] for each in keys if each.group not in changed)
        keys = now
    assert num_spared
