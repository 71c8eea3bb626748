"""Responses that do not end by themselves: they repeat themselves until the limit, or nearly so.

Every set of real responses has some, many times as long as the others of their group, and a normal
distribution of log lengths gives them no chance at all. So a length is a mixture: regular (log-
normal) but for a small share of runaways, whose length says nothing about their group. Whoever is
far longer than a regular member would be is soon taken for one, and is expected to go on; and it
does not pull its group's level or spread towards itself.
"""

import math

from seer.scheduling.lognormal import bell, survival

RUNAWAY_SHARE = 0.005
"""Of all responses, before anything is known of them."""


def log_weight_of_length(z: float) -> float:
    """Log likelihood, up to a constant, of a length that is z deviations from its group's level.

    Runaways count as if spread over what a regular length covers.
    """
    return _log_weight(bell(z))


def log_weight_of_bound(z: float) -> float:
    """The same of being longer than that."""
    return _log_weight(survival(z))


def regular_share_of_length(z: float) -> float:
    """Probability that a length so far from its group's level is a regular one."""
    return _regular_share(bell(z))


def regular_share_beyond(z: float) -> float:
    """Probability that whoever is longer than that is regular."""
    return _regular_share(survival(z))


def share_among_regular(share: float, regular: float) -> float | None:
    """Which quantile of the regular ones is the `share` quantile of all; None: it is a runaway.

    `regular`: the part of regular ones in all that may still come.
    """
    return share / regular if share < regular else None


def _log_weight(of_regular: float) -> float:
    """Of what has this likelihood for a regular response; for a runaway it has 1."""
    return math.log((1 - RUNAWAY_SHARE) * of_regular + RUNAWAY_SHARE)


def _regular_share(of_regular: float) -> float:
    """Probability of a regular response, given what has this likelihood for one."""
    weight = (1 - RUNAWAY_SHARE) * of_regular
    return weight / (weight + RUNAWAY_SHARE)
