import math

import pytest

from seer.errors import InvalidInput
from seer.trainers.on_policy import OffPolicy, OnPolicyCheck, compare, enforce, rows_to_check


def test_the_largest_difference_is_found_with_its_place() -> None:
    """Row and position of the worst token, and the mean over all."""
    difference = compare({0: [-1.0, -2.0], 3: [-1.0, -1.0]}, {0: [-1.0, -2.0], 3: [-1.0, -1.5]})
    assert (difference.largest, difference.row, difference.position) == (0.5, 3, 1)
    assert difference.num_tokens == 4
    assert difference.mean == pytest.approx(0.125)


def test_a_difference_within_the_tolerance_passes() -> None:
    """Nothing is raised up to the tolerance."""
    enforce(compare({0: [-1.0]}, {0: [-1.25]}), 0.25)


@pytest.mark.parametrize("ours", [-1.5, math.nan])
def test_beyond_the_tolerance_the_run_ends(ours: float) -> None:
    """Too far, or no number at all: the message names the token."""
    difference = compare({0: [-2.0], 2: [-1.0, ours]}, {0: [-2.0], 2: [-1.0, -1.0]})
    with pytest.raises(OffPolicy, match="row 2, token 1"):
        enforce(difference, 1e-4)


def test_every_row_is_checked_by_default() -> None:
    """A share of 1 is all rows."""
    assert rows_to_check(6, OnPolicyCheck().share, 3) == [0, 1, 2, 3, 4, 5]


def test_a_share_of_the_rows_moves_on_with_each_step() -> None:
    """Half of the rows a step: all of them after two."""
    assert rows_to_check(6, 0.5, 0) == [0, 2, 4]
    assert rows_to_check(6, 0.5, 1) == [1, 3, 5]


def test_a_small_share_is_a_row_at_least() -> None:
    """Something is always compared, unless nothing was asked for."""
    assert len(rows_to_check(6, 0.01, 0)) == 1
    assert rows_to_check(6, 0, 0) == []


@pytest.mark.parametrize("bad", [{"share": 1.5}, {"share": -0.1}, {"tolerance": -1.0}])
def test_bad_settings_are_refused(bad: dict[str, float]) -> None:
    """Shares outside [0, 1] and negative tolerances name their field."""
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        OnPolicyCheck(**bad)
