"""What was accepted of what was drafted: by position, by match length, and estimate by estimate.

Counts decay with every step that is observed, since texts change as a rollout goes on. Pure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.drafting.outcomes import NodePlaces
from seer.drafting.suffix_tree import Drafts
from seer.errors import InvalidInput

MATCH_LENGTHS = (0, 1, 2, 4, 8, 16, 32)
"""Least match length of each row of the table by match length."""
_PRIOR_ACCEPTANCE = 0.6
"""Per position, worth one trial: what is assumed of drafts before any is known."""


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
    """Online statistics of drafts whose outcome is known; estimates are calibrated by them."""

    def __init__(self, settings: AcceptanceSettings = AcceptanceSettings()) -> None:
        """Nothing observed."""
        self._settings = settings
        self._edges = np.linspace(0, 1, settings.num_bins + 1)
        # Rows: known, accepted.
        self._positions = np.zeros((2, settings.max_positions))
        self._matches = np.zeros((2, len(MATCH_LENGTHS)))
        # Rows: nodes, sum of their estimates, accepted.
        self._bins = np.zeros((3, settings.num_bins))
        self._calibrated: NDArray[np.float64] | None = None

    def observe(
        self, drafts: Drafts, known: NDArray[np.int32], accepted: NDArray[np.bool_]
    ) -> None:
        """Take one step's outcome.

        Args:
            drafts: Of B requests, N nodes.
            known: (B,) nodes of each request whose outcome is known, its first ones.
            accepted: (N,) whether each node was accepted; unknown ones do not count.

        Raises:
            InvalidInput: A shape does not fit, or a number of known nodes is out of bounds.
        """
        sizes = np.diff(drafts.offsets)
        if known.shape != sizes.shape or (known < 0).any() or (known > sizes).any():
            raise InvalidInput("known", known, "allowed: (B,), 0 to the request's nodes")
        if accepted.shape != drafts.token_ids.shape:
            raise InvalidInput("accepted", accepted, "allowed: (N,), one for each node")
        self._positions *= self._settings.decay
        self._matches *= self._settings.decay
        self._bins *= self._settings.decay
        self._calibrated = None
        places = NodePlaces.of(drafts)
        counted = places.within < known[places.owners]
        accepted = accepted & counted
        deepest = np.zeros(len(sizes), np.int64)
        np.maximum.at(deepest, places.owners[counted], places.depths[counted])
        num_accepted = np.bincount(places.owners[accepted], minlength=len(sizes))
        self._observe_bins(drafts.probabilities[counted], accepted[counted])
        self._observe_positions(deepest, num_accepted)
        self._observe_matches(drafts.match_lengths, deepest > 0, num_accepted > 0)

    def by_position(self) -> NDArray[np.float64]:
        """(max_positions + 1,) chance that all draft positions up to this one are accepted.

        [0] is 1. Never rising. With nothing observed, 0.6 for each further position.
        """
        known, accepted = self._positions
        # Of the texts that were accepted so far and had a draft for this position.
        rates = (accepted + _PRIOR_ACCEPTANCE) / (known + 1)
        return np.concatenate([[1.0], np.cumprod(rates)])

    def by_match_length(self) -> NDArray[np.float64]:
        """(len(MATCH_LENGTHS),) share of known drafts whose first position was accepted.

        NaN where none is known.
        """
        known, accepted = self._matches
        empty = np.full(len(known), np.nan)
        shares: NDArray[np.float64] = np.divide(accepted, known, out=empty, where=known > 0)
        return shares

    def calibrate(self, probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
        """Estimates as they have proved, same shape, each in [0, 1]; keeps their order."""
        if self._calibrated is None:
            self._calibrated = self._fit()
        calibrated: NDArray[np.float64] = np.interp(probabilities, self._edges, self._calibrated)
        return calibrated

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

    def _fit(self) -> NDArray[np.float64]:
        """Calibrated value at each edge: the identity, moved by what was observed around it."""
        nodes, estimates, accepted = self._bins
        weights = _around_edges(nodes) + self._settings.prior_nodes
        moved = self._edges + _around_edges(accepted - estimates) / weights
        return _isotonic(np.clip(moved, 0, 1), weights)

    def _observe_bins(
        self, probabilities: NDArray[np.float32], accepted: NDArray[np.bool_]
    ) -> None:
        size = self._settings.num_bins
        bins = np.minimum((probabilities * size).astype(np.int64), size - 1)
        self._bins[0] += np.bincount(bins, minlength=size)
        self._bins[1] += np.bincount(bins, probabilities, minlength=size)
        self._bins[2] += np.bincount(bins, accepted, minlength=size)

    def _observe_positions(
        self, deepest: NDArray[np.int64], num_accepted: NDArray[np.int64]
    ) -> None:
        """Of B requests the deepest known position (0: none) and how many were accepted."""
        size = self._settings.max_positions
        # Tried: up to the first position where no node was accepted.
        tried = np.minimum(np.minimum(num_accepted + 1, deepest), size)
        kept = np.minimum(num_accepted, tried)
        self._positions += [_reaching(tried, size), _reaching(kept, size)]

    def _observe_matches(
        self,
        match_lengths: NDArray[np.int32],
        is_known: NDArray[np.bool_],
        is_accepted: NDArray[np.bool_],
    ) -> None:
        """Of B requests whether the first position is known, and whether it was accepted."""
        rows = np.searchsorted(MATCH_LENGTHS, match_lengths, side="right") - 1
        for row, mask in enumerate((is_known, is_accepted)):
            self._matches[row] += np.bincount(rows[mask], minlength=len(MATCH_LENGTHS))


def _reaching(counts: NDArray[np.integer], size: int) -> NDArray[np.int64]:
    """(size,) how many of `counts`, each at most `size`, are above 0, 1, ... size - 1."""
    return np.bincount(counts, minlength=size + 1)[::-1].cumsum()[::-1][1:]


def _around_edges(bins: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n + 1,) sums of the one or two of the (n,) bins that each edge bounds."""
    return np.convolve(bins, [1.0, 1.0])


def _isotonic(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The non-decreasing values nearest to `values` (pool adjacent violators, least squares)."""
    pools: list[tuple[float, float, int]] = []
    for value, own_weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, weight, size = value, own_weight, 1
        while pools and pools[-1][0] > mean:
            other, other_weight, other_size = pools.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, size = weight + other_weight, size + other_size
        pools.append((mean, weight, size))
    return np.repeat([mean for mean, _, _ in pools], [size for _, _, size in pools])
