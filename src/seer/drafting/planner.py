"""Plans the drafts of each step: how much to draft, how much to verify, what to learn. Pure.

An engine's step asks `limits` and `settings`, drafts, asks `plan`, verifies, and tells `observe`.
Where all limits are 0 it does without the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from seer.drafting.acceptance import AcceptanceStatistics
from seer.drafting.budget import Budget, DraftBatch
from seer.drafting.outcomes import known_outcomes
from seer.drafting.suffix_tree import Drafts, DraftSettings
from seer.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBatch:
    """The B requests of a step, as the planner sees them.

    Raises:
        InvalidInput: A shape does not fit, a weight is not above 0, or a request has no token left.
    """

    num_tokens_left: NDArray[np.int32]
    """(B,) tokens that each may still generate in its chunk."""
    is_probe: NDArray[np.bool_]
    """(B,)"""
    weights: NDArray[np.float64]
    """(B,) what their tokens are worth: above 1 for those predicted to be the longest."""

    def __post_init__(self) -> None:
        if not len(self.num_tokens_left) == len(self.is_probe) == len(self.weights):
            raise InvalidInput("weights", self.weights, "allowed: (B,), as num_tokens_left")
        if (self.num_tokens_left < 1).any():
            raise InvalidInput("num_tokens_left", self.num_tokens_left, "allowed: at least 1")
        if not ((self.weights > 0) & (self.weights < np.inf)).all():
            raise InvalidInput("weights", self.weights, "allowed: above 0, finite")

    def __len__(self) -> int:
        return len(self.num_tokens_left)


_RESTS_BELOW = 0.05
"""Verified nodes a request below which a planner rests: a step gains no more tokens than those."""
_DRAFTS_EVERY = 4
"""While it rests: one step in so many has drafts."""
_MEMORY = 0.95
"""Weight of older steps with drafts in that mean after one more."""
_FIRST_NODES = 0.25
"""That mean before the first step: some 30 steps to find out whether drafts pay."""
_LEARNS_FROM = 64
"""Requests of a step; of steps with k times as many it learns from one in k."""


class Planner:
    """One instance's plans, under one budget.

    Asking, planning and learning take as long whether anything is verified or not. So while next to
    nothing is, the planner rests: it drafts in one step of four, until that pays again.
    """

    def __init__(
        self, budget: Budget, settings: DraftSettings, statistics: AcceptanceStatistics
    ) -> None:
        """Plans under `budget`; `settings` are kept but for `top_k`, which the budget decides."""
        self._budget = budget
        self._settings = settings
        self.statistics = statistics
        self._num_steps = 0
        self._num_drafted = 0
        """Steps that had drafts."""
        self._mean_nodes = _FIRST_NODES
        """Verified nodes a request, over the last steps with drafts."""

    def settings(self, num_requests: int) -> DraftSettings:
        """Shape of the drafts of a batch of so many requests."""
        return replace(self._settings, top_k=self._budget.top_k(num_requests))

    def limits(self, batch: RunningBatch) -> NDArray[np.int32]:
        """(B,) most nodes to draft for each request. To be asked once a step: steps are counted.

        None for its last token, and none at all while the planner rests. A chain is no longer than
        what is left before the bonus token; a tree may have more nodes than that, side by side.
        """
        self._num_steps += 1
        if self._mean_nodes < _RESTS_BELOW and self._num_steps % _DRAFTS_EVERY:
            return np.zeros(len(batch), np.int32)
        left = batch.num_tokens_left - 1
        most = self._budget.max_nodes(len(batch))
        if self._budget.top_k(len(batch)) > 1:
            left = np.where(left > 0, most, 0)
        return np.minimum(left, most).astype(np.int32)

    def plan(self, batch: RunningBatch, drafts: Drafts, context_tokens: float) -> NDArray[np.int32]:
        """(B,) nodes that each request verifies: the first ones of its draft.

        Not to be asked where all limits are 0.

        Args:
            batch: B requests.
            drafts: Theirs, in the same order, within their limits.
            context_tokens: KV tokens that the step reads in all.

        Raises:
            InvalidInput: There are not as many drafts as requests.
        """
        if len(drafts.offsets) != len(batch) + 1:
            raise InvalidInput("drafts", len(drafts.offsets) - 1, "allowed: one for each request")
        allotted = self._budget.allot(
            DraftBatch(
                is_probe=batch.is_probe,
                weights=batch.weights,
                probabilities=self.statistics.calibrate(drafts.probabilities),
                offsets=drafts.offsets,
                acceptance=self.statistics.by_position(),
                context_tokens=context_tokens,
            )
        )
        nodes = float(allotted.sum()) / max(len(batch), 1)
        self._mean_nodes = _MEMORY * self._mean_nodes + (1 - _MEMORY) * nodes
        return allotted

    def observe(
        self, drafts: Drafts, verified: NDArray[np.int32], new_tokens: Sequence[Sequence[int]]
    ) -> None:
        """Learn from a step with drafts, also where nothing was verified; see `known_outcomes`.

        Else a budget that verifies nothing would never learn that it pays again.
        """
        self._num_drafted += 1
        is_taught = self._num_drafted % max(1, len(verified) // _LEARNS_FROM) == 0
        if is_taught and len(drafts.token_ids):
            self.statistics.observe(drafts, *known_outcomes(drafts, verified, new_tokens))
