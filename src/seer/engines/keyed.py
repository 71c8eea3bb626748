"""Keyed uniform numbers: the draw at a place depends on that place alone.

A place is (seed, group, member, position in the output). Its number is a counter-based hash: four
rounds of `h = mix(h ^ mix(word + golden))`, one a word, with splitmix64's finaliser (Stafford's
variant 13) as `mix`; the upper 53 bits become a float64 in [0, 1). No state is carried, so any
engine computes any place in any order and gets the same number. Changing a constant here changes
every text of every rollout: the golden values in the tests pin them.
"""

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_DROPPED_BITS = np.uint64(11)
_SCALE = 2.0**-53


def uniforms(
    seed: int, group: int, member: int, positions: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Numbers in [0, 1) at `positions` of one request's output."""
    return uniforms_batch(
        np.full(len(positions), seed, dtype=np.int64),
        np.full(len(positions), group, dtype=np.int64),
        np.full(len(positions), member, dtype=np.int64),
        positions,
    )


def uniforms_batch(
    seeds: NDArray[np.int64],
    groups: NDArray[np.int64],
    members: NDArray[np.int64],
    positions: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Numbers in [0, 1), one a row of the four arrays of equal length."""
    state = np.zeros(len(seeds), dtype=np.uint64)
    for words in (seeds, groups, members, positions):
        state = mix64(state ^ mix64(words.astype(np.uint64) + _GOLDEN))
    return (state >> _DROPPED_BITS).astype(np.float64) * _SCALE


def mix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bijective mixing of 64-bit words (arrays only: their arithmetic wraps silently)."""
    x = (x ^ (x >> _SHIFTS[0])) * _MULTIPLIER_1
    x = (x ^ (x >> _SHIFTS[1])) * _MULTIPLIER_2
    return x ^ (x >> _SHIFTS[2])
