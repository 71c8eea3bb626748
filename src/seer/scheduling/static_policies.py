"""Policies that deal whole requests to instances before they run; the engines queue them there.

Baselines: what trainers do today.
"""

from collections.abc import Sequence
from typing import Protocol

from seer.types import RequestId


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
