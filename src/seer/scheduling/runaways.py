"""Responses that do not end by themselves: they repeat themselves until the limit, or nearly so.

Every set of real responses has some, many times as long as the others of their group, and a normal
distribution of log lengths gives them no chance at all. So a length is a mixture: regular (log-
normal) but for a small share of runaways, whose length says nothing about their group. Whoever is
far longer than a regular member would be is soon taken for one, and is expected to go on; and it
does not pull its group's level or spread towards itself.
"""

import math

from seer.scheduling.lognormal import survival

RUNAWAY_SHARE = 0.005
"""Of all responses, before anything is known of them."""
_REGULAR_SHARE = 1 - RUNAWAY_SHARE


def log_weight_of_length(z: float) -> float:
    """Log likelihood, up to a constant, of a length that is z deviations from its group's level.

    Runaways count as if spread over what a regular length covers.
    """
    return math.log(_REGULAR_SHARE * math.exp(-z * z / 2) + RUNAWAY_SHARE)


def log_weight_of_bound(z: float) -> float:
    """The same of being longer than that."""
    return math.log(_REGULAR_SHARE * survival(z) + RUNAWAY_SHARE)


def regular_share_of_length(z: float) -> float:
    """Probability that a length so far from its group's level is a regular one."""
    weight = _REGULAR_SHARE * math.exp(-z * z / 2)
    return weight / (weight + RUNAWAY_SHARE)


def regular_share_beyond(z: float) -> float:
    """Probability that whoever is longer than that is regular."""
    weight = _REGULAR_SHARE * survival(z)
    return weight / (weight + RUNAWAY_SHARE)


def share_among_regular(share: float, regular: float) -> float | None:
    """Which quantile of the regular ones is the `share` quantile of all; None: it is a runaway.

    `regular`: the part of regular ones in all that may still come.
    """
    return share / regular if share < regular else None
