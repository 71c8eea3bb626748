"""Plans the drafts of each step: how much to draft, how much to verify, what to learn. Pure.

An engine's step asks `limits` and `settings`, drafts, asks `plan`, verifies, and tells `observe`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from seer.drafting.acceptance import AcceptanceStatistics
from seer.drafting.budget import Budget, DraftBatch
from seer.drafting.suffix_tree import Drafts, DraftSettings
from seer.errors import InvalidInput
from seer.types import RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRequest:
    """A request of the batch, as the planner sees it.

    Raises:
        InvalidInput: The weight is not above 0, or there is no token left.
    """

    request_id: RequestId
    num_tokens_left: int
    """Tokens that it may still generate in this chunk."""
    is_probe: bool = False
    weight: float = 1.0
    """What its tokens are worth: above 1 for those predicted to be the longest."""

    def __post_init__(self) -> None:
        if self.num_tokens_left < 1:
            raise InvalidInput("num_tokens_left", self.num_tokens_left, "allowed: at least 1")
        if not 0 < self.weight < float("inf"):
            raise InvalidInput("weight", self.weight, "allowed: above 0, finite")


class Planner:
    """One instance's plans, under one budget."""

    def __init__(
        self, budget: Budget, settings: DraftSettings, statistics: AcceptanceStatistics
    ) -> None:
        """Plans under `budget`; `settings` are kept but for `top_k`, which the budget decides."""
        self._budget = budget
        self._settings = settings
        self.statistics = statistics

    def settings(self, num_requests: int) -> DraftSettings:
        """Shape of the drafts of a batch of so many requests."""
        return replace(self._settings, top_k=self._budget.top_k(num_requests))

    def limits(self, requests: Sequence[RunningRequest]) -> NDArray[np.int32]:
        """(B,) most nodes to draft for each request.

        None for its last token. A chain is no longer than what is left before the bonus token; a
        tree may have more nodes than that, side by side.
        """
        left = np.array([request.num_tokens_left - 1 for request in requests], np.int32)
        most = self._budget.max_nodes(len(requests))
        if self._budget.top_k(len(requests)) > 1:
            left = np.where(left > 0, most, 0)
        return np.minimum(left, most).astype(np.int32)

    def plan(
        self, requests: Sequence[RunningRequest], drafts: Drafts, context_tokens: float
    ) -> NDArray[np.int32]:
        """(B,) nodes that each request verifies: the first ones of its draft.

        Args:
            requests: B of them.
            drafts: Theirs, in the same order.
            context_tokens: KV tokens that the step reads in all.

        Raises:
            InvalidInput: There are not as many drafts as requests.
        """
        if len(drafts.offsets) != len(requests) + 1:
            raise InvalidInput("drafts", len(drafts.offsets) - 1, "allowed: one for each request")
        batch = DraftBatch(
            is_probe=np.array([request.is_probe for request in requests], np.bool_),
            weights=np.array([request.weight for request in requests], np.float64),
            limits=self.limits(requests),
            probabilities=self.statistics.calibrate(drafts.probabilities),
            offsets=drafts.offsets,
            acceptance=self.statistics.by_position(),
            context_tokens=context_tokens,
        )
        return self._budget.allot(batch)

    def observe(
        self, drafts: Drafts, verified: NDArray[np.int32], accepted: NDArray[np.bool_]
    ) -> None:
        """Learn from a step; see AcceptanceStatistics.observe."""
        self.statistics.observe(drafts, verified, accepted)
