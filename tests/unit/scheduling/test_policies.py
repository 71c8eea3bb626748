import pytest

from seer.errors import InvalidInput
from seer.scheduling.policies import POLICY_NAMES, make_policy
from seer.scheduling.static_policies import GroupRoundRobin, Interleaved
from seer.types import RequestId


def _requests(num_groups: int, group_size: int) -> list[RequestId]:
    return [RequestId(g, m) for g in range(num_groups) for m in range(group_size)]


def test_every_name_makes_a_policy() -> None:
    """Of a class of its own."""
    made = [static or divided for static, divided in map(make_policy, POLICY_NAMES)]
    assert len({type(policy) for policy in made}) == len(POLICY_NAMES)


def test_an_unknown_name_is_an_input_error_that_lists_the_known_ones() -> None:
    """So that a user can correct it."""
    with pytest.raises(InvalidInput, match=r"policy: got 'fifo'.*group_round_robin.*divided"):
        make_policy("fifo")


def test_group_round_robin_keeps_groups_together_and_takes_instances_in_turn() -> None:
    """The turn goes on over several submissions."""
    policy = GroupRoundRobin()
    assert policy.deal(_requests(3, 2), [4, 7]) == [4, 4, 7, 7, 4, 4]
    assert policy.deal(_requests(1, 2), [4, 7]) == [7, 7]
    assert policy.deal([], [4, 7]) == []


def test_interleaved_spreads_the_members_of_a_group() -> None:
    """The turn goes on over several submissions."""
    policy = Interleaved()
    assert policy.deal(_requests(1, 3), [4, 7]) == [4, 7, 4]
    assert policy.deal(_requests(1, 3), [4, 7]) == [7, 4, 7]
