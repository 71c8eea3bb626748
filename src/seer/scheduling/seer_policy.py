"""Our policy: one member of every group early, then whoever may have the longest way to go.

Three differences from the paper's Algorithm 2. What they bring depends on the workload: most where
members of a group differ much, little where they are alike (docs/log.md, docs/simulator.md):
- A probe has priority for its first chunk only. What tells a long group is that its members do not
  end; a probe that went on with priority to its own end would hold memory that others need.
- The rest is ordered by what a request may still have before it: an upper quantile of its length,
  given its group and what it has, less what it has. A mean would let those wait of whom little is
  known, and one of them turns out to be the longest.
- A request that fits nowhere is passed over a few times in a round, so that memory left by a long
  one's reservation is used. Once nobody else waits, instances are kept at even numbers of requests,
  so that the last ones, which bound the rollout, all run in small batches.
Chunks are short against the limit and grow a little with the request: a whole chunk is reserved,
and half of it is unused on average, so what that wastes is a small part of what the request holds.
Groups are opened as far as their prompts leave room (`open_groups.py`).
"""

from seer.scheduling.admission import chunk_tokens
from seer.scheduling.conditional_lengths import ConditionalEstimator
from seer.scheduling.divided_policies import (
    UNCHANGED,
    Changed,
    Divided,
    Waiting,
    way_to_go_weight,
)
from seer.scheduling.group_knowledge import Alike
from seer.scheduling.open_groups import OpenGroups
from seer.scheduling.request_buffer import OrderKey
from seer.types import GroupSpec, RequestId

LEVELS = 12
"""Ways left to go are told apart by this part of the limit; among equals whoever has more goes on,
so that requests do not take each other's memory in turns."""
UPPER_SHARE = 0.8
"""Probability that a request stays below the length that it is ordered by."""
CHUNKS_A_RESPONSE = 8
"""A chunk is this part of what the request has, ..."""
MOST_CHUNKS_A_LIMIT = 96
"""... but at least this part of the limit, as the first ones are, ..."""
FEWEST_CHUNKS_A_LIMIT = 48
"""... and at most this part of it; ..."""
MIN_CHUNK = 32
"""... none is uselessly short."""
_PROBE, _REST, _CLOSED = range(3)


class SeerPolicy(Divided):
    """Upper quantile of the remaining length first."""

    max_skips = 2
    end_game_spread = 2

    def __init__(self, chunk_size: int | None = None) -> None:
        super().__init__(chunk_size)
        self._lengths = ConditionalEstimator()
        self._open = OpenGroups()
        self._num_fits = 0
        self._levels_alike: dict[Alike, tuple[int, int]] = {}
        """At the last fit, of groups of which hardly anything was known: the level of the member
        under way, and of the others."""

    def add_group(self, group: GroupSpec) -> None:
        """Nothing is known of it but its limit and perhaps an earlier iteration."""
        self._lengths.add_group(group)
        self._open.add(group.group_id, group.num_prompt_tokens)

    def order_key(self, request: Waiting) -> OrderKey:
        """Probes that have not run; then the longest way to go first; ties by group, then member.

        So of the groups of which equally little is known one is brought on after the other: members
        that run together share their prompt's KV, and learn from each other's texts.
        """
        group, member = request.request_id.group, request.request_id.member
        if group not in self._open:
            return (_CLOSED, 0, 0, group, member)
        if self.is_probe(request):
            return (_PROBE, 0, 0, member, group)
        level = self._level(request.request_id, request.num_generated, request.max_tokens)
        return (_REST, -level, -request.num_generated, group, member)

    def _level(self, request_id: RequestId, num_generated: int, max_tokens: int) -> int:
        """What it may still have before it, in parts of the limit."""
        upper = self._lengths.quantile(request_id, UPPER_SHARE)
        return int(LEVELS * (upper - num_generated) / max_tokens)

    def is_probe(self, request: Waiting) -> bool:
        """Member 0, until its first chunk has started."""
        return request.request_id.member == 0 and not request.num_generated

    def draft_weight(self, request: Waiting) -> float:
        """More for who is expected to have more to go."""
        return way_to_go_weight(self._lengths.estimate(request.request_id), request)

    def chunk_tokens(self, request: Waiting) -> int:
        """The chunk size at most, and of what it has and of the limit small parts."""
        part = max(
            request.num_generated // CHUNKS_A_RESPONSE, request.max_tokens // MOST_CHUNKS_A_LIMIT
        )
        most = max(MIN_CHUNK, min(part, request.max_tokens // FEWEST_CHUNKS_A_LIMIT))
        size = most if self._chunk_size is None else min(self._chunk_size, most)
        return chunk_tokens(size, request.num_generated, request.max_tokens)

    def progressed(self, request_id: RequestId, num_generated: int) -> Changed:
        """All members' estimates move with one that goes on, once it has grown enough."""
        is_news = self._lengths.progressed(request_id, num_generated)
        return (request_id.group,) if is_news else UNCHANGED

    def finished(self, request_id: RequestId, num_tokens: int) -> Changed:
        """The group's estimates move, and now and then everybody's."""
        self._lengths.finished(request_id, num_tokens)
        if self._lengths.num_fits == self._num_fits:
            return (request_id.group,)
        self._num_fits = self._lengths.num_fits
        return self._moved_by_fit()

    def _moved_by_fit(self) -> list[int]:
        """Groups whose keys a new fit may have changed.

        Those of which hardly anything is known are many and alike: their levels are worked out once
        for all, and seldom differ from those before.
        """
        before, self._levels_alike = self._levels_alike, {}
        moved = list(self._lengths.groups_apart)
        for alike, crowd in self._lengths.crowds.items():
            levels = self._levels_of(next(iter(crowd.group_ids)), alike)
            self._levels_alike[alike] = levels
            if before.get(alike) != levels:
                moved += crowd.group_ids
        return moved

    def _levels_of(self, group_id: int, alike: Alike) -> tuple[int, int]:
        under_way, other = RequestId(group_id, alike.member), RequestId(group_id, alike.member + 1)
        return (
            self._level(under_way, alike.num_generated, alike.max_tokens),
            self._level(other, 0, alike.max_tokens),
        )

    def remove_group(self, group_id: int) -> Changed:
        """Forget it; another one may be opened."""
        self._lengths.remove_group(group_id)
        return self._open.remove(group_id)

    def resized(self, kv_tokens: int) -> Changed:
        """More groups may be opened."""
        return self._open.resize(kv_tokens)
