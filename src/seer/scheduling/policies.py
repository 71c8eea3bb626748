"""Who is served next, and where that is fixed from the start.

Two kinds. A static policy deals requests to instances at once and whole; the engines queue them,
first come first served. `Divided` orders the waiting requests; admission and placement do the
rest, chunk by chunk. A policy that learns from finished requests is another class with an
`order_key`; when what it knows of a group changes, the group's waiting requests are put into the
buffer again under their new keys.
"""

from collections.abc import Sequence
from typing import Protocol

from seer.errors import InvalidInput
from seer.scheduling.request_buffer import OrderKey
from seer.types import RequestId

POLICY_NAMES = ("group_round_robin", "interleaved", "divided")


class StaticPolicy(Protocol):
    """Deals requests to instances before they run."""

    def deal(self, request_ids: Sequence[RequestId], instance_ids: Sequence[int]) -> list[int]:
        """Instance of each request; both in ascending order, at least one instance."""


class GroupRoundRobin:
    """Whole groups to instances in turn: veRL's dispatch, the paper's baseline (section 2)."""

    def __init__(self) -> None:
        self._num_dealt = 0

    def deal(self, request_ids: Sequence[RequestId], instance_ids: Sequence[int]) -> list[int]:
        """One instance for all requests of a group that are dealt together."""
        dealt: list[int] = []
        group = None
        for request_id in request_ids:
            if request_id.group != group:
                group = request_id.group
                self._num_dealt += 1
            dealt.append(instance_ids[(self._num_dealt - 1) % len(instance_ids)])
        return dealt


class Interleaved:
    """Requests to instances in turn, so that a group's members are spread."""

    def __init__(self) -> None:
        self._num_dealt = 0

    def deal(self, request_ids: Sequence[RequestId], instance_ids: Sequence[int]) -> list[int]:
        """The next instance for each request."""
        first = self._num_dealt
        self._num_dealt += len(request_ids)
        count = len(instance_ids)
        return [instance_ids[(first + i) % count] for i in range(len(request_ids))]


class Divided:
    """Divided rollout without context (paper section 3): first come, first served.

    # Paper silent: the order without length context. By group, then member: a group that has
    started is brought to its end before later ones take its memory.
    """

    def order_key(self, request_id: RequestId) -> OrderKey:
        """Key in the request buffer; ids are unique, so there are no ties."""
        return (request_id.group, request_id.member)


Policy = GroupRoundRobin | Interleaved | Divided


def make_policy(name: str) -> Policy:
    """The policy of that name. Raises InvalidInput for an unknown one."""
    match name:
        case "group_round_robin":
            return GroupRoundRobin()
        case "interleaved":
            return Interleaved()
        case "divided":
            return Divided()
        case _:
            raise InvalidInput("policy", name, f"allowed: {', '.join(POLICY_NAMES)}")
