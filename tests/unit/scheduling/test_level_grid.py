import math

import pytest

from seer.scheduling.level_grid import LevelGrid


def test_without_news_the_level_is_the_prior() -> None:
    """Its mean and variance."""
    level = LevelGrid(6.0, 0.5, 0.3).level([], [])
    assert (level.mean, level.variance) == (6.0, 0.25)


def test_finished_members_give_the_posterior_of_two_normals() -> None:
    """Precisions add up; the grid is exact within a few percent."""
    level = LevelGrid(6.0, 0.5, 0.5).level([7.0], [])
    assert level.mean == pytest.approx(6.5, abs=0.02)
    assert level.variance == pytest.approx(0.125, rel=0.1)


def test_a_bound_raises_the_level_the_same_at_each_request() -> None:
    """Alone or beside others, and though it is remembered."""
    grid = LevelGrid(6.0, 0.5, 0.3)
    bound = round(math.exp(6.5))
    alone = grid.level([], [bound])
    assert alone.mean > 6.3
    assert grid.level([], [bound, bound]).mean > alone.mean
    assert grid.level([], [bound]) == alone
    assert LevelGrid(6.0, 0.5, 0.3).level([], [bound]) == alone
