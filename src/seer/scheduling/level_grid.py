"""Posterior of a group's level mu_g on a fixed grid, from what is known of its members.

What a member adds to the log weights depends on its length and the prior alone, so what has been
worked out for one bound serves all groups with that prior.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seer.scheduling.runaways import log_weight_of_bound, log_weight_of_length

GRID = tuple(3 * i / 8 for i in range(-8, 9))
"""Points of the posterior, in prior standard deviations around the prior mean."""


@dataclass(frozen=True, slots=True)
class Level:
    """Mean and variance of mu_g."""

    mean: float
    variance: float


class LevelGrid:
    """Posteriors under one prior N(centre, spread^2) of mu_g and one sigma within groups."""

    def __init__(self, centre: float, spread: float, sigma: float) -> None:
        self._prior = Level(centre, spread**2)
        self._sigma = sigma
        self._points = [centre + spread * step for step in GRID]
        self._from_bound: dict[int, list[float]] = {}
        """What a member adds of which only a bound is known, at each point."""

    def level(self, finished_logs: Sequence[float], bounds: Sequence[int]) -> Level:
        """Posterior given log lengths of finished members, and lengths that others exceed (> 0)."""
        if not (finished_logs or bounds):
            return self._prior
        weights = [-step * step / 2 for step in GRID]
        sigma = self._sigma
        for length in finished_logs:
            weights = [
                weight + log_weight_of_length((length - mu) / sigma)
                for weight, mu in zip(weights, self._points, strict=True)
            ]
        for bound in bounds:
            terms = self._terms(bound)
            weights = [weight + term for weight, term in zip(weights, terms, strict=True)]
        return _moments(self._points, weights)

    def _terms(self, bound: int) -> list[float]:
        terms = self._from_bound.get(bound)
        if terms is None:
            log_bound = math.log(bound)
            terms = [log_weight_of_bound((log_bound - mu) / self._sigma) for mu in self._points]
            self._from_bound[bound] = terms
        return terms


def _moments(points: Sequence[float], log_weights: Sequence[float]) -> Level:
    """Mean and variance of points with log weights."""
    highest = max(log_weights)
    total = mean = square = 0.0
    for mu, log_weight in zip(points, log_weights, strict=True):
        weight = math.exp(log_weight - highest)
        total += weight
        mean += weight * mu
        square += weight * mu * mu
    mean /= total
    return Level(mean, max(0.0, square / total - mean * mean))
