"""Keyed uniform numbers: fixed for ever, uniform, independent of their neighbours."""

import numpy as np
import pytest

from seer.engines.keyed import uniforms, uniforms_batch

POSITIONS = np.arange(20_000, dtype=np.int64)
NUM_BINS = 100
CHI_SQUARE_LIMIT = 160.0
"""99 degrees of freedom: exceeded by chance once in 10^4."""
GOLDEN_ZERO = [0.9738750440363668, 0.9772765654545379, 0.6073497876426244]
GOLDEN_SMALL = [0.7962054336123665, 0.2176271251451808, 0.5721720851870884]
GOLDEN_LARGE = [0.44406631192312096, 0.6233090042050928, 0.5622511685008522]


def _chi_square(numbers: np.ndarray, num_bins: int = NUM_BINS) -> float:
    counts = np.bincount((numbers * num_bins).astype(int), minlength=num_bins)
    expected = len(numbers) / num_bins
    return float(((counts - expected) ** 2 / expected).sum())


def test_golden_values() -> None:
    """The numbers never change: every text depends on them."""
    assert uniforms(0, 0, 0, POSITIONS[:3]).tolist() == GOLDEN_ZERO
    assert uniforms(1, 2, 3, POSITIONS[:3]).tolist() == GOLDEN_SMALL
    assert uniforms(2**63 - 1, 10**6, 511, POSITIONS[:3] + 98_000).tolist() == GOLDEN_LARGE


def test_range() -> None:
    """All numbers lie in [0, 1)."""
    numbers = uniforms(3, 1, 4, POSITIONS)
    assert numbers.dtype == np.float64
    assert numbers.min() >= 0
    assert numbers.max() < 1


@pytest.mark.parametrize("axis", range(4))
def test_uniform_along_each_word(axis: int) -> None:
    """Counting one of seed, group, member and position up gives uniform numbers."""
    words = [np.full(len(POSITIONS), 7, dtype=np.int64) for _ in range(4)]
    words[axis] = POSITIONS
    assert _chi_square(uniforms_batch(*words)) < CHI_SQUARE_LIMIT


@pytest.mark.parametrize("axis", range(4))
def test_neighbours_are_independent(axis: int) -> None:
    """Pairs of neighbours along any word fill the unit square evenly."""
    words = [np.full(len(POSITIONS), 7, dtype=np.int64) for _ in range(4)]
    words[axis] = POSITIONS
    first = uniforms_batch(*words)
    words[axis] = POSITIONS + 1
    second = uniforms_batch(*words)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    cells = (np.floor(first * 10) * 10 + np.floor(second * 10)) / 100
    assert _chi_square(cells + 0.001) < CHI_SQUARE_LIMIT


def test_words_are_not_interchangeable() -> None:
    """Swapping two of the words gives another number."""
    names = [(1, 2, 3, 4), (2, 1, 3, 4), (1, 3, 2, 4), (1, 2, 4, 3)]
    numbers = uniforms_batch(*np.array(names, dtype=np.int64).T)
    assert len(set(numbers.tolist())) == len(names)


def test_batch_equals_single() -> None:
    """A row of a batch gives the number of its place alone."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 1000, size=(4, 50))
    batch = uniforms_batch(*words)
    for i, (seed, group, member, position) in enumerate(words.T.tolist()):
        assert uniforms(seed, group, member, np.array([position]))[0] == batch[i]
