"""Statistics of acceptance on outcomes small enough to count by hand."""

import numpy as np
import pytest

from seer.drafting.acceptance import (
    MATCH_LENGTHS,
    AcceptanceSettings,
    AcceptanceStatistics,
)
from seer.drafting.suffix_tree import Drafts
from seer.errors import InvalidInput

KEEP_ALL = AcceptanceSettings(decay=1.0, num_bins=10)


def _chain(probabilities: list[float], match_length: int = 3) -> Drafts:
    size = len(probabilities)
    return Drafts(
        token_ids=np.arange(size, dtype=np.int32),
        parents=np.arange(-1, size - 1, dtype=np.int32),
        probabilities=np.array(probabilities, np.float32),
        offsets=np.array([0, size], np.int32),
        match_lengths=np.array([match_length], np.int32),
    )


def _observe(statistics: AcceptanceStatistics, drafts: Drafts, known: int, taken: int) -> None:
    accepted = np.arange(len(drafts.token_ids)) < taken
    statistics.observe(drafts, np.array([known], np.int32), accepted)


def test_positions_count_while_the_path_holds() -> None:
    """A position after a rejected one says nothing, and is not counted."""
    statistics = AcceptanceStatistics(KEEP_ALL)
    for _ in range(1000):
        _observe(statistics, _chain([0.9, 0.8, 0.7]), known=3, taken=1)
    beta = statistics.by_position()
    assert beta[:3] == pytest.approx([1.0, 1.0, 0.0], abs=0.01)
    assert beta[3] == pytest.approx(0.6 * beta[2])


def test_a_tree_counts_its_deepest_known_node() -> None:
    """One path of two forks was right to the end; the other fork is one position too."""
    statistics = AcceptanceStatistics(KEEP_ALL)
    drafts = Drafts(
        token_ids=np.array([5, 6, 7], np.int32),
        parents=np.array([-1, -1, 1], np.int32),
        probabilities=np.array([0.5, 0.4, 0.3], np.float32),
        offsets=np.array([0, 3], np.int32),
        match_lengths=np.array([3], np.int32),
    )
    for _ in range(1000):
        statistics.observe(drafts, np.array([3], np.int32), np.array([False, True, True]))
    assert statistics.by_position()[:3] == pytest.approx([1.0, 1.0, 1.0], abs=0.01)
    assert statistics.by_position()[3] == pytest.approx(0.6, abs=0.01)


def test_match_lengths_are_told_apart() -> None:
    """Acceptance of the first position, by the match that led to it."""
    statistics = AcceptanceStatistics(KEEP_ALL)
    _observe(statistics, _chain([0.9], match_length=1), known=1, taken=0)
    _observe(statistics, _chain([0.9], match_length=40), known=1, taken=1)
    shares = dict(zip(MATCH_LENGTHS, statistics.by_match_length(), strict=True))
    assert (shares[1], shares[32]) == (0.0, 1.0)
    assert np.isnan(shares[4])


def test_what_is_not_known_does_not_count() -> None:
    """A draft of which nothing is known leaves no trace."""
    statistics = AcceptanceStatistics(KEEP_ALL)
    _observe(statistics, _chain([0.9, 0.8]), known=0, taken=0)
    assert statistics.reliability()[:, 0].sum() == 0
    assert statistics.by_position()[1] == pytest.approx(0.6)


def test_estimates_are_corrected_by_what_was_observed() -> None:
    """Without observations estimates stay; then they move to what they proved to be."""
    statistics = AcceptanceStatistics(KEEP_ALL)
    estimate = np.array([0.55], np.float32)
    assert statistics.calibrate(estimate) == pytest.approx([0.55])
    for step in range(1000):
        _observe(statistics, _chain([0.55]), known=1, taken=int(step % 10 < 3))
    assert statistics.reliability()[5].tolist() == pytest.approx([1000, 0.55, 0.3])
    assert statistics.calibrate(estimate)[0] < 0.45
    everywhere = statistics.calibrate(np.linspace(0, 1, 101))
    assert (np.diff(everywhere) >= 0).all()
    assert everywhere.min() >= 0
    assert everywhere.max() <= 1


def test_old_observations_fade() -> None:
    """Later outcomes outweigh more earlier ones."""
    statistics = AcceptanceStatistics(AcceptanceSettings(decay=0.9))
    for taken in [1] * 100 + [0] * 50:
        _observe(statistics, _chain([0.5], match_length=2), known=1, taken=taken)
    assert statistics.by_match_length()[2] < 0.01


@pytest.mark.parametrize("known", [[-1], [2], [1, 1]])
def test_impossible_outcomes_are_refused(known: list[int]) -> None:
    """No more nodes are known than drafted, and no fewer than none."""
    with pytest.raises(InvalidInput, match="known"):
        AcceptanceStatistics().observe(_chain([0.5]), np.array(known, np.int32), np.array([True]))


def test_bad_settings_are_refused() -> None:
    """Each bound names its field."""
    for field in ("decay", "max_positions", "num_bins", "prior_nodes"):
        with pytest.raises(InvalidInput, match=field):
            AcceptanceSettings(**{field: 0})
