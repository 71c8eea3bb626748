import math

import pytest

from seer.scheduling.lognormal import survival
from seer.scheduling.runaways import (
    RUNAWAY_SHARE,
    log_weight_of_bound,
    log_weight_of_length,
    regular_share_beyond,
    regular_share_of_length,
    share_among_regular,
)


def test_who_has_not_begun_is_regular_but_for_the_known_share() -> None:
    """Nothing beyond minus infinity says anything."""
    assert regular_share_beyond(-math.inf) == pytest.approx(1 - RUNAWAY_SHARE)


def test_who_is_far_longer_is_a_runaway() -> None:
    """Within a deviation hardly, from four on for nearly certain."""
    assert regular_share_beyond(1.0) > 0.95
    assert regular_share_beyond(4.0) < 0.01
    assert regular_share_of_length(1.0) > 0.98
    assert regular_share_of_length(6.0) < 0.01


def test_what_a_member_says_of_its_group_has_a_floor() -> None:
    """However far a length lies, it counts no more than a runaway's chance."""
    for z in (6.0, 20.0, 300.0):
        assert log_weight_of_length(z) == pytest.approx(math.log(RUNAWAY_SHARE), abs=1e-3)
        assert log_weight_of_bound(z) == pytest.approx(math.log(RUNAWAY_SHARE), abs=1e-3)


@pytest.mark.parametrize("z", [-1.0, 0.0, 1.5, 2.0, 3.0])
def test_quantiles_of_the_mixture(z: float) -> None:
    """Below the runaways' share a quantile is a regular length, above it a runaway."""
    regular = regular_share_beyond(z)
    for share in (0.1, 0.5, 0.8, 0.99):
        among = share_among_regular(share, regular)
        if among is None:
            assert share >= regular
            continue
        at = survival(z) * (1 - among)  # mass of regular members beyond that length
        beyond = (1 - RUNAWAY_SHARE) * at + RUNAWAY_SHARE
        assert beyond / ((1 - RUNAWAY_SHARE) * survival(z) + RUNAWAY_SHARE) == pytest.approx(
            1 - share
        )
