"""The normal distribution of log lengths: the few formulas that the length model needs."""

import math
from statistics import NormalDist

_SQRT_2 = math.sqrt(2.0)
_TINY = 1e-12
_FAR_ABOVE = 6.0
_HUGE_LOG = 100.0
_NORMAL = NormalDist()


def survival(z: float) -> float:
    """P(Z > z) of a standard normal."""
    return 0.5 * math.erfc(z / _SQRT_2)


def bell(z: float) -> float:
    """Density of a standard normal over its greatest."""
    return math.exp(-z * z / 2)


def hazard(z: float) -> float:
    """Density over survival at z: the mean of a standard normal beyond z."""
    if z > _FAR_ABOVE:
        return z + 1 / z
    return bell(z) / math.sqrt(2 * math.pi) / survival(z)


def expected_beyond(mu: float, sigma: float, least: float, most: float) -> float:
    """E[min(L, most) | L > least] of a length with ln L ~ N(mu, sigma^2); least < most.

    Far in the upper tail, where the formula loses all digits, the tail's own mean log is used.
    """
    log_most = math.log(most)
    above = survival((log_most - mu) / sigma)
    total, log_least = 1.0, -math.inf
    if least > 0:
        log_least = math.log(least)
        total = survival((log_least - mu) / sigma)
    if total < _TINY:
        beyond = mu + sigma * hazard((log_least - mu) / sigma)
        return min(most, math.exp(min(beyond, log_most)))
    inner = survival((log_least - mu) / sigma - sigma) if least > 0 else 1.0
    inner -= survival((log_most - mu) / sigma - sigma)
    between = _exp(mu + sigma * sigma / 2) * max(inner, 0.0)
    return min(most, max(least, (between + most * above) / total))


def quantile_beyond(mu: float, sigma: float, least: float, share: float) -> float:
    """The length that L stays below with probability `share`, given L > least; 0 < share < 1."""
    above = survival((math.log(least) - mu) / sigma) if least > 0 else 1.0
    beyond = (1 - share) * above
    if beyond < _TINY:  # the exponential tail of the normal, from its hazard
        z = (math.log(least) - mu) / sigma
        return least * _exp(-math.log(1 - share) * sigma / hazard(z))
    return _exp(mu - sigma * _NORMAL.inv_cdf(beyond))


def _exp(log: float) -> float:
    """No length needs more than this; a mistaken prior must not end a rollout by overflow."""
    return math.exp(min(log, _HUGE_LOG))
