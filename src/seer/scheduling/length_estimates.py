"""How long a request will become: what the policies that order by length ask.

An estimator is told of every group, of every chunk that ended, and of every request that finished;
it answers with the expected number of output tokens of a request over its whole life.
"""

from typing import Protocol

from seer.types import GroupSpec, RequestId


class LengthEstimator(Protocol):
    """Expected output tokens of requests, learned while a rollout runs."""

    def add_group(self, group: GroupSpec) -> None:
        """A group is submitted."""

    def progressed(self, request_id: RequestId, num_generated: int) -> bool:
        """A request has this many tokens and goes on. Whether that changes others' estimates."""

    def finished(self, request_id: RequestId, num_tokens: int) -> None:
        """A request is complete with this many tokens."""

    def remove_group(self, group_id: int) -> None:
        """All members of a group are complete."""

    def estimate(self, request_id: RequestId) -> float:
        """Output tokens that an unfinished request of a known group will have in all."""


class GroupMaxEstimator:
    """The paper's estimate (section 4.1): the longest finished member of the group.

    The limit as long as none is finished; it never falls afterwards. All members of a group share
    it, and how long they already are does not enter.
    """

    def __init__(self) -> None:
        self._limits: dict[int, int] = {}
        self._longest: dict[int, int] = {}

    def add_group(self, group: GroupSpec) -> None:
        """Nothing is known yet but the limit."""
        self._limits[group.group_id] = group.max_tokens

    def progressed(self, request_id: RequestId, num_generated: int) -> bool:
        """Not used: only finished members count."""
        del request_id, num_generated
        return False

    def finished(self, request_id: RequestId, num_tokens: int) -> None:
        """The longest finished member so far."""
        longest = self._longest.get(request_id.group, 0)
        self._longest[request_id.group] = max(longest, num_tokens)

    def remove_group(self, group_id: int) -> None:
        """Forget it."""
        self._limits.pop(group_id, None)
        self._longest.pop(group_id, None)

    def estimate(self, request_id: RequestId) -> float:
        """The same for all members."""
        return self._longest.get(request_id.group) or self._limits[request_id.group]


class KnownLengths:
    """True lengths, as an oracle has them: `GroupSpec.known_lengths`; the limit without them."""

    def __init__(self) -> None:
        self._groups: dict[int, GroupSpec] = {}

    def add_group(self, group: GroupSpec) -> None:
        """Keep its lengths."""
        self._groups[group.group_id] = group

    def progressed(self, request_id: RequestId, num_generated: int) -> bool:
        """Nothing to learn."""
        del request_id, num_generated
        return False

    def finished(self, request_id: RequestId, num_tokens: int) -> None:
        """Nothing to learn."""

    def remove_group(self, group_id: int) -> None:
        """Forget it."""
        self._groups.pop(group_id, None)

    def estimate(self, request_id: RequestId) -> float:
        """The true length."""
        group = self._groups[request_id.group]
        return group.known_lengths[request_id.member] if group.known_lengths else group.max_tokens
