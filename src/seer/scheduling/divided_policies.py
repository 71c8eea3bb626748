"""Policies of divided rollout: which waiting request is served next, and how long its chunk is.

A policy gives every waiting request a key; the least key is served first. What it learns from a
chunk's end may change keys: it names the groups, and their waiting requests get new ones.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from seer.scheduling.admission import chunk_tokens
from seer.scheduling.length_estimates import GroupMaxEstimator, KnownLengths
from seer.scheduling.request_buffer import OrderKey
from seer.types import GroupSpec, RequestId

Changed = Iterable[int]
"""Groups whose waiting requests have new keys."""
UNCHANGED: tuple[int, ...] = ()


class Waiting(Protocol):
    """What a policy sees of a request in the buffer."""

    @property
    def request_id(self) -> RequestId:
        """Which one it is."""

    @property
    def num_generated(self) -> int:
        """Output tokens so far."""

    @property
    def max_tokens(self) -> int:
        """Limit of output tokens."""


class DividedPolicy(Protocol):
    """Orders the request buffer."""

    @property
    def max_skips(self) -> int:
        """How many waiting requests that fit nowhere may be passed over in a round."""

    @property
    def end_game_spread(self) -> int | None:
        """`PlacementConfig.max_spread` once nobody waits, if that is tighter; None: as ever."""

    def add_group(self, group: GroupSpec) -> None:
        """A group is submitted."""

    def order_key(self, request: Waiting) -> OrderKey:
        """Place of a waiting request; never the same for two of them."""

    def chunk_tokens(self, request: Waiting) -> int:
        """Most tokens of the request's next chunk, at least 1."""

    def is_probe(self, request: Waiting) -> bool:
        """Whether the request is run early for what its length tells of its group."""

    def draft_weight(self, request: Waiting) -> float:
        """What a token of it is worth, above 0, where drafts of several requests compete."""

    def started(self, request_id: RequestId) -> Changed:
        """A chunk of the request has started."""

    def progressed(self, request_id: RequestId, num_generated: int) -> Changed:
        """A chunk has ended and the request goes on with this many tokens."""

    def finished(self, request_id: RequestId, num_tokens: int) -> Changed:
        """A request is complete with this many tokens."""

    def remove_group(self, group_id: int) -> Changed:
        """All members of a group are complete."""

    def resized(self, kv_tokens: int) -> Changed:
        """The instances that are up hold the KV of so many tokens in all."""


def way_to_go_weight(length: float, request: Waiting) -> float:
    """1 for a request at its expected `length`, rising to 2 with what it has before it.

    # Paper silent: "high-priority" requests get longer drafts, with no number but lambda = 2.
    """
    left = max(0.0, length - request.num_generated)
    return round(1.0 + min(1.0, left / request.max_tokens), 2)


class Divided:
    """Divided rollout without context (paper section 3): first come, first served.

    # Paper silent: the order without length context. By group, then member: a group that has
    started is brought to its end before later ones take its memory.
    """

    max_skips = 0
    end_game_spread: int | None = None

    def __init__(self, chunk_size: int | None = None) -> None:
        self._chunk_size = chunk_size

    def add_group(self, group: GroupSpec) -> None:
        """Nothing to learn."""

    def order_key(self, request: Waiting) -> OrderKey:
        """By id."""
        return (request.request_id.group, request.request_id.member)

    def chunk_tokens(self, request: Waiting) -> int:
        """The chunk size, or what is left."""
        return chunk_tokens(self._chunk_size, request.num_generated, request.max_tokens)

    def is_probe(self, request: Waiting) -> bool:
        """Nobody is."""
        del request
        return False

    def draft_weight(self, request: Waiting) -> float:
        """The same for all: nothing is known of lengths."""
        del request
        return 1.0

    def started(self, request_id: RequestId) -> Changed:
        """Nothing to learn."""
        del request_id
        return UNCHANGED

    def progressed(self, request_id: RequestId, num_generated: int) -> Changed:
        """Nothing to learn."""
        del request_id, num_generated
        return UNCHANGED

    def finished(self, request_id: RequestId, num_tokens: int) -> Changed:
        """Nothing to learn."""
        del request_id, num_tokens
        return UNCHANGED

    def remove_group(self, group_id: int) -> Changed:
        """Nothing to forget."""
        del group_id
        return UNCHANGED

    def resized(self, kv_tokens: int) -> Changed:
        """No matter."""
        del kv_tokens
        return UNCHANGED


class Oracle(Divided):
    """Longest first by true lengths: how far length context could carry (paper section 6.4)."""

    def __init__(self, chunk_size: int | None = None) -> None:
        super().__init__(chunk_size)
        self._lengths = KnownLengths()

    def add_group(self, group: GroupSpec) -> None:
        """Its true lengths."""
        self._lengths.add_group(group)

    def order_key(self, request: Waiting) -> OrderKey:
        """Longest first; ties by id."""
        request_id = request.request_id
        return (-round(self._lengths.estimate(request_id)), request_id.group, request_id.member)

    def draft_weight(self, request: Waiting) -> float:
        """More for who has more to go."""
        return way_to_go_weight(self._lengths.estimate(request.request_id), request)

    def remove_group(self, group_id: int) -> Changed:
        """Forget its lengths."""
        self._lengths.remove_group(group_id)
        return UNCHANGED


GUARD_PERIOD = 64
_BOOSTED, _PROBE, _REST = range(3)


class ContextAware(Divided):
    """The paper's Algorithm 2: probes shortest first, the rest longest estimate first.

    The probe is a group's member 0. Strict priority of probes, and nobody overtakes a head that
    fits nowhere, as published.
    # Paper silent: ties. By group, then member.
    # Paper silent: how under-served groups are helped. With every 64th chunk that starts, the
    unfinished group that was served longest ago comes first until one of its members starts.
    """

    def __init__(self, chunk_size: int | None = None) -> None:
        super().__init__(chunk_size)
        self._lengths = GroupMaxEstimator()
        self._last_served: OrderedDict[int, None] = OrderedDict()
        self._num_started = 0
        self._boosted: int | None = None

    def add_group(self, group: GroupSpec) -> None:
        """Its estimate is the limit."""
        self._lengths.add_group(group)
        self._last_served[group.group_id] = None

    def order_key(self, request: Waiting) -> OrderKey:
        """Boosted group, then probes, then the rest."""
        group, member = request.request_id.group, request.request_id.member
        if group == self._boosted:
            return (_BOOSTED, request.num_generated, group, member)
        if self.is_probe(request):
            return (_PROBE, request.num_generated, group, member)
        return (_REST, -round(self._lengths.estimate(request.request_id)), group, member)

    def is_probe(self, request: Waiting) -> bool:
        """Member 0."""
        return request.request_id.member == 0

    def draft_weight(self, request: Waiting) -> float:
        """More for who is expected to have more to go."""
        return way_to_go_weight(self._lengths.estimate(request.request_id), request)

    def started(self, request_id: RequestId) -> Changed:
        """The group counts as served; now and then another one is boosted."""
        self._last_served.move_to_end(request_id.group)
        self._num_started += 1
        previous = self._boosted
        if previous == request_id.group:
            self._boosted = None
        if self._num_started % GUARD_PERIOD == 0:
            self._boosted = next(iter(self._last_served))
            self._last_served.move_to_end(self._boosted)
        if self._boosted == previous:
            return UNCHANGED
        boosted = (previous, self._boosted)
        return [group for group in boosted if group is not None and group in self._last_served]

    def finished(self, request_id: RequestId, num_tokens: int) -> Changed:
        """The group's estimate may grow, or be known for the first time."""
        before = self._lengths.estimate(request_id)
        self._lengths.finished(request_id, num_tokens)
        is_changed = self._lengths.estimate(request_id) != before
        return (request_id.group,) if is_changed else UNCHANGED

    def remove_group(self, group_id: int) -> Changed:
        """Forget it."""
        self._lengths.remove_group(group_id)
        self._last_served.pop(group_id, None)
        if self._boosted == group_id:
            self._boosted = None
        return UNCHANGED
