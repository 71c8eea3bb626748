"""What was accepted of what was drafted: by position, by match length, and estimate by estimate.

Counts decay with every step that is observed, since texts change as a rollout goes on. Pure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.drafting.suffix_tree import Drafts
from seer.errors import InvalidInput

MATCH_LENGTHS = (0, 1, 2, 4, 8, 16, 32)
"""Least match length of each row of the table by match length."""
_PRIOR_ACCEPTANCE = 0.6
"""Per position, worth one trial: what is assumed of drafts before any was verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceSettings:
    """How statistics are kept.

    Raises:
        InvalidInput: A value is outside its bounds.
    """

    # Paper silent: beta is "measured online" without saying over what window.
    decay: float = 0.999
    """Weight of older counts after each observed step; 1 forgets nothing."""
    max_positions: int = 16
    """Draft positions that are told apart."""
    num_bins: int = 20
    """Rows of the reliability table."""
    prior_nodes: float = 20.0
    """Nodes that an uncalibrated estimate is worth against those observed near it."""

    def __post_init__(self) -> None:
        if not 0 < self.decay <= 1:
            raise InvalidInput("decay", self.decay, "allowed: above 0, at most 1")
        for name in ("max_positions", "num_bins"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, getattr(self, name), "allowed: an integer >= 1")
        if not 0 < self.prior_nodes < float("inf"):
            raise InvalidInput("prior_nodes", self.prior_nodes, "allowed: above 0, finite")


class AcceptanceStatistics:
    """Online statistics of verified drafts, and the calibration of estimates by them."""

    def __init__(self, settings: AcceptanceSettings = AcceptanceSettings()) -> None:
        """Nothing observed."""
        self._settings = settings
        # Rows: verified, accepted.
        self._positions = np.zeros((2, settings.max_positions))
        self._matches = np.zeros((2, len(MATCH_LENGTHS)))
        # Rows: nodes, sum of their estimates, accepted.
        self._bins = np.zeros((3, settings.num_bins))
        self._calibrated: NDArray[np.float64] | None = None

    def observe(
        self, drafts: Drafts, verified: NDArray[np.int32], accepted: NDArray[np.bool_]
    ) -> None:
        """Take one step's outcome.

        Args:
            drafts: Of B requests, N nodes.
            verified: (B,) nodes of each request that were verified, its first ones.
            accepted: (N,) whether each node was accepted; those not verified do not count.

        Raises:
            InvalidInput: A shape does not fit, or a number of verified nodes is out of bounds.
        """
        sizes = np.diff(drafts.offsets)
        if verified.shape != sizes.shape or (verified < 0).any() or (verified > sizes).any():
            raise InvalidInput("verified", verified, "allowed: (B,), 0 to the request's nodes")
        if accepted.shape != drafts.token_ids.shape:
            raise InvalidInput("accepted", accepted, "allowed: (N,), one for each node")
        self._positions *= self._settings.decay
        self._matches *= self._settings.decay
        self._bins *= self._settings.decay
        self._calibrated = None
        within = np.arange(len(accepted)) - np.repeat(drafts.offsets[:-1], sizes)
        counted = within < np.repeat(verified, sizes)
        self._observe_bins(drafts.probabilities[counted], accepted[counted])
        self._observe_places(drafts, verified, accepted)

    def by_position(self) -> NDArray[np.float64]:
        """(max_positions + 1,) chance that all draft positions up to this one are accepted.

        [0] is 1. Never rising. With nothing observed, 0.6 for each further position.
        """
        verified, accepted = self._positions
        # Of the texts that were accepted so far and had a draft for this position.
        rates = (accepted + _PRIOR_ACCEPTANCE) / (verified + 1)
        return np.concatenate([[1.0], np.cumprod(rates)])

    def by_match_length(self) -> NDArray[np.float64]:
        """(len(MATCH_LENGTHS),) share of verified drafts whose first position was accepted.

        NaN where none was verified.
        """
        verified, accepted = self._matches
        unknown = np.full(len(verified), np.nan)
        shares: NDArray[np.float64] = np.divide(accepted, verified, out=unknown, where=verified > 0)
        return shares

    def calibrate(self, probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
        """Estimates as they have proved, same shape, each in [0, 1]; keeps their order."""
        edges = np.linspace(0, 1, self._settings.num_bins + 1)
        if self._calibrated is None:
            self._calibrated = self._fit(edges)
        return np.interp(np.asarray(probabilities, np.float64), edges, self._calibrated)

    def reliability(self) -> NDArray[np.float64]:
        """(num_bins, 3) nodes, their mean estimate, and the share accepted; NaN without nodes."""
        nodes, estimates, accepted = self._bins
        empty = np.full(len(nodes), np.nan)
        return np.stack(
            [
                nodes,
                np.divide(estimates, nodes, out=empty.copy(), where=nodes > 0),
                np.divide(accepted, nodes, out=empty.copy(), where=nodes > 0),
            ],
            axis=1,
        )

    def _fit(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Calibrated value at each edge: the identity, moved by what was observed around it."""
        nodes, estimates, accepted = self._bins
        prior = self._settings.prior_nodes
        shift = (accepted - estimates) / (nodes + prior)
        around = np.concatenate([[0.0], (shift[:-1] + shift[1:]) / 2, [0.0]])
        return _isotonic(np.clip(edges + around, 0, 1))

    def _observe_bins(
        self, probabilities: NDArray[np.float32], accepted: NDArray[np.bool_]
    ) -> None:
        size = self._settings.num_bins
        bins = np.minimum((probabilities * size).astype(np.int64), size - 1)
        self._bins[0] += np.bincount(bins, minlength=size)
        self._bins[1] += np.bincount(bins, probabilities, minlength=size)
        self._bins[2] += np.bincount(bins, accepted, minlength=size)

    def _observe_places(
        self, drafts: Drafts, verified: NDArray[np.int32], accepted: NDArray[np.bool_]
    ) -> None:
        rows = np.searchsorted(MATCH_LENGTHS, drafts.match_lengths, side="right") - 1
        for request in np.flatnonzero(verified):
            start = int(drafts.offsets[request])
            nodes = slice(start, start + int(verified[request]))
            depths = _depths(drafts.parents[nodes])
            num_accepted = int(np.count_nonzero(accepted[nodes]))
            # Tried: up to the first position where no node was accepted.
            num_tried = min(num_accepted + 1, max(depths), self._settings.max_positions)
            self._positions[0, :num_tried] += 1
            self._positions[1, : min(num_accepted, num_tried)] += 1
            self._matches[0, rows[request]] += 1
            self._matches[1, rows[request]] += num_accepted > 0


def accepted_nodes(
    token_ids: NDArray[np.int32], parents: NDArray[np.int32], truth: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """(n,) which of one request's n nodes are accepted when the text goes on as `truth`."""
    accepted = np.zeros(len(token_ids), np.bool_)
    node, depth = -1, 0
    for i, (token, parent) in enumerate(zip(token_ids.tolist(), parents.tolist(), strict=True)):
        if depth < len(truth) and parent == node and token == truth[depth]:
            accepted[i] = True
            node, depth = i, depth + 1
    return accepted


def _depths(parents: NDArray[np.int32]) -> list[int]:
    """Draft position of each node, from 1."""
    depths: list[int] = []
    for parent in parents.tolist():
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return depths


def _isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The non-decreasing values nearest to `values` (pool adjacent violators, least squares)."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, size = value, 1
        while pools and pools[-1][0] > mean:
            other, other_size = pools.pop()
            mean = (mean * size + other * other_size) / (size + other_size)
            size += other_size
        pools.append((mean, size))
    return np.repeat([mean for mean, _ in pools], [size for _, size in pools])
