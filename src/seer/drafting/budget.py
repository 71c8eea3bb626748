"""How many draft nodes each request of a batch verifies. Pure.

Three ways: `FixedBudget`, the paper's `MarginalBenefit` (Algorithm 1), and ours, `SeerBudget`. All
give each request a number of its draft's first nodes, never more than it has, may or can use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seer.costmodel.step_time import StepTime
from seer.errors import InvalidInput

_SEARCH_POINTS = 24
"""Step times that one pass of the search asks for: some 20 to 50 µs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBatch:
    """B requests with N draft nodes in all, no more than each may verify."""

    is_probe: NDArray[np.bool_]
    """(B,)"""
    weights: NDArray[np.float64]
    """(B,) what a token of the request is worth against others', above 0."""
    probabilities: NDArray[np.float64]
    """(N,) of acceptance, path included; never rising within a request."""
    offsets: NDArray[np.int32]
    """(B + 1,) first node of each request, and N."""
    acceptance: NDArray[np.float64]
    """(P + 1,) chance that all draft positions up to this one are accepted; [0] is 1."""
    context_tokens: float
    """KV tokens that the step reads in all."""

    @property
    def num_requests(self) -> int:
        """B."""
        return len(self.weights)

    @property
    def sizes(self) -> NDArray[np.int32]:
        """(B,) nodes of each request."""
        return np.diff(self.offsets)


class Budget(Protocol):
    """A way to hand out verified nodes."""

    def max_nodes(self, num_requests: int) -> int:
        """Most nodes of a request in a batch of so many; what to ask of the drafter."""
        ...

    def top_k(self, num_requests: int) -> int:
        """Most children of a draft's node in a batch of so many; 1: chains."""
        ...

    def allot(self, batch: DraftBatch) -> NDArray[np.int32]:
        """(B,) nodes that each request verifies: the first ones of its draft."""
        ...


@dataclass(frozen=True, slots=True)
class FixedBudget:
    """The same number of nodes for every request, as a chain."""

    num_nodes: int

    def __post_init__(self) -> None:
        if self.num_nodes < 0:
            raise InvalidInput("num_nodes", self.num_nodes, "allowed: 0 or more")

    def max_nodes(self, num_requests: int) -> int:  # noqa: ARG002 - the same for all batches
        """See Budget."""
        return self.num_nodes

    def top_k(self, num_requests: int) -> int:  # noqa: ARG002 - chains for all batches
        """See Budget."""
        return 1

    def allot(self, batch: DraftBatch) -> NDArray[np.int32]:
        """See Budget."""
        return np.minimum(batch.sizes, self.num_nodes).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBudget:
    """Draft tokens of each probe and of each other request (paper gamma_h, gamma_l)."""

    probe: int
    rest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalBenefit:
    """The paper's policy (Algorithm 1, "MBA"), to the letter: chains, two budgets for a batch."""

    step_time: StepTime
    max_positions: int = 8
    """gamma_max; 8 in the paper."""
    priority: float = 2.0
    """lambda; 2 in the paper. It weighs the side of the others, so more favours the probes less."""

    def __post_init__(self) -> None:
        if self.max_positions < 0:
            raise InvalidInput("max_positions", self.max_positions, "allowed: 0 or more")
        if not 1 <= self.priority < float("inf"):
            raise InvalidInput("priority", self.priority, "allowed: 1 or more, finite")

    def max_nodes(self, num_requests: int) -> int:  # noqa: ARG002 - the same for all batches
        """See Budget."""
        return self.max_positions

    def top_k(self, num_requests: int) -> int:  # noqa: ARG002 - chains for all batches
        """See Budget."""
        return 1

    def allot(self, batch: DraftBatch) -> NDArray[np.int32]:
        """See Budget."""
        num_probes = int(np.count_nonzero(batch.is_probe))
        budget = self.draft_budget(
            num_probes, batch.num_requests - num_probes, batch.acceptance, batch.context_tokens
        )
        wanted = np.where(batch.is_probe, budget.probe, budget.rest)
        return np.minimum(batch.sizes, wanted).astype(np.int32)

    def draft_budget(
        self,
        num_probes: int,
        num_rest: int,
        acceptance: NDArray[np.float64],
        context_tokens: float,
    ) -> DraftBudget:
        """Algorithm 1. `acceptance` as in DraftBatch. Without probes, theirs means nothing."""
        total = (num_probes + num_rest) * self.best_positions(
            num_probes + num_rest, acceptance, context_tokens
        )
        if total < num_probes:
            return DraftBudget(probe=0, rest=0)
        beta = _padded(acceptance, self.max_positions + 2)
        probe, rest, remaining = 1, 0, total - num_probes
        while remaining > 0:
            benefit_probe = num_probes * (beta[probe] - beta[probe + 1])
            benefit_rest = num_rest * (beta[rest] - beta[rest + 1])
            if (
                benefit_probe > self.priority * benefit_rest
                and probe < self.max_positions
                and remaining >= num_probes
            ):
                probe, remaining = probe + 1, remaining - num_probes
            elif num_rest > 0 and rest < self.max_positions and remaining >= num_rest:
                rest, remaining = rest + 1, remaining - num_rest
            else:
                # Paper silent: what is left over when neither side fits. It is not used, as in the
                # pseudocode, also where the probes could still take it.
                break
        return DraftBudget(probe=probe, rest=rest)

    def best_positions(
        self, num_requests: int, acceptance: NDArray[np.float64], context_tokens: float
    ) -> int:
        """gamma*: draft positions with the least time a token, all requests alike (section 3.4.1).

        The smallest of equals.
        """
        if num_requests == 0:
            return 0
        beta = _padded(acceptance, self.max_positions + 1)

        # Paper silent: whether 0 is among the candidates. It must be: else the test of Algorithm 1
        # that turns speculation off could not be met.
        def time_per_token(positions: int) -> float:
            drafted = num_requests * positions
            seconds = self.step_time.step_s(num_requests, num_requests + drafted, context_tokens)
            seconds += self.step_time.draft_s(num_requests, drafted)
            alpha = _acceptance_rate(beta[: positions + 1])
            return seconds / sum(alpha**i for i in range(positions + 1))

        return min(range(self.max_positions + 1), key=time_per_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeerBudget:
    """Ours: the likeliest nodes of the whole batch, as long as weighted tokens a second rise.

    All nodes of all requests are ranked by weight times probability. The first n of them are
    verified, with the n that has the most expected tokens a second under the step-time model; none
    where even that gains less than `min_gain`. The time of drafting does not count: the drafts are
    there when this is decided.
    """

    step_time: StepTime
    max_nodes_chain: int = 8
    """Most nodes of a request in a batch that drafts chains; the paper's gamma_max."""
    max_nodes_tree: int = 32
    """Most nodes of a request in a batch that drafts trees."""
    max_nodes_batch: int = 256
    """Most nodes of such a batch in all, where that leaves each request `max_nodes_chain`: more
    candidates than can pay only let the overrated ones win."""
    tree_top_k: int = 4
    # Paper silent: several paths "in the long-tail stage", without a number.
    max_requests_tree: int = 32
    """Batches of up to so many requests draft trees."""
    probe_weight: float = 2.0
    """What a probe's token is worth, besides the weight of its request; as the paper's lambda."""
    min_gain: float = 0.03
    """Least expected gain of a step, as a share of its tokens a second without drafts: it pays for
    what no step-time model knows of, the bookkeeping of longer steps and errors of both models."""

    def __post_init__(self) -> None:
        sizes = ("max_nodes_chain", "max_nodes_tree", "max_nodes_batch", "max_requests_tree")
        for name in (*sizes, "min_gain"):
            if not getattr(self, name) >= 0:
                raise InvalidInput(name, getattr(self, name), "allowed: 0 or more")
        if self.tree_top_k < 1:
            raise InvalidInput("tree_top_k", self.tree_top_k, "allowed: at least 1")
        if not 0 < self.probe_weight < float("inf"):
            raise InvalidInput("probe_weight", self.probe_weight, "allowed: above 0, finite")

    def max_nodes(self, num_requests: int) -> int:
        """See Budget."""
        if num_requests > self.max_requests_tree:
            return self.max_nodes_chain
        share = self.max_nodes_batch // max(num_requests, 1)
        return min(self.max_nodes_tree, max(self.max_nodes_chain, share))

    def top_k(self, num_requests: int) -> int:
        """See Budget."""
        return self.tree_top_k if num_requests <= self.max_requests_tree else 1

    def allot(self, batch: DraftBatch) -> NDArray[np.int32]:
        """See Budget. Of equal nodes the earlier request's, and its earlier ones, come first."""
        size = batch.num_requests
        weights = np.where(batch.is_probe, self.probe_weight, 1.0) * batch.weights
        values = np.repeat(weights, batch.sizes) * batch.probabilities
        order = np.argsort(-values, kind="stable")  # keeps each request's nodes in their order
        expected = np.concatenate([[0.0], values[order]]).cumsum() + weights.sum()

        def tokens_per_s(num_nodes: int) -> float:
            seconds = self.step_time.step_s(size, size + num_nodes, batch.context_tokens)
            return float(expected[num_nodes]) / max(seconds, 1e-12)

        best = _argmax(tokens_per_s, len(order))
        if tokens_per_s(best) < (1 + self.min_gain) * tokens_per_s(0):
            best = 0
        owners = np.repeat(np.arange(size), batch.sizes)
        return np.bincount(owners[order[:best]], minlength=size).astype(np.int32)


def _argmax(value: Callable[[int], float], last: int) -> int:
    """The smallest n from 0 to `last` with the greatest value.

    Exact up to 23, and for values that rise to one top; else the best near the best of 24.
    """
    low, high = 0, last
    while True:
        step = max(1, -(-(high - low) // (_SEARCH_POINTS - 1)))
        points = [*range(low, high, step), high]
        best = max(points, key=value)
        if step == 1:
            return best if value(best) > value(0) else 0
        low, high = max(low, best - step), min(high, best + step)


def _padded(acceptance: NDArray[np.float64], size: int) -> list[float]:
    """beta[0 ... size - 1]; nothing is accepted beyond what was measured.

    # Paper silent: beta[0], which Algorithm 1 reads. It is 1: the position before all drafts holds.
    """
    beta = [1.0, *acceptance[1:size].tolist()]
    return beta + [0.0] * (size - len(beta))


def _acceptance_rate(beta: list[float]) -> float:
    """Alpha = E[beta]: accepted of tried positions.

    # Paper silent: over what the mean is taken. Over trials: a position is tried when the one
    # before it was accepted. And over the positions that a gamma would try: deeper ones are tried
    # in texts that are easy to guess, and would make a first position look better than it is.
    """
    tried = sum(beta[:-1])
    return sum(beta[1:]) / tried if tried else 0.0
