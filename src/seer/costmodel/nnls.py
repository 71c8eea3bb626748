"""Least squares with coefficients that cannot be negative."""

import numpy as np
from numpy.typing import NDArray

_TOLERANCE = 1e-10


def non_negative_least_squares(
    matrix: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The x >= 0 that minimises |matrix x - target|, for a matrix of a few columns.

    The active-set method of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter 23):
    the coefficient that would help most joins; those that turn negative leave. Columns may be
    dependent. `matrix` is [rows, columns], `target` [rows].
    """
    norms = np.linalg.norm(matrix, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    columns = matrix / scale
    x = np.zeros(columns.shape[1])
    joined = np.zeros(columns.shape[1], dtype=bool)
    for _ in range(10 * len(x)):  # far more than it takes; an end also under rounding
        gain = columns.T @ (target - columns @ x)
        gain[joined] = 0.0
        if gain.max() <= _TOLERANCE * np.linalg.norm(target):
            break
        joined[gain.argmax()] = True
        x = _settle(columns, target, x, joined)
    result: NDArray[np.float64] = x / scale
    return result


def _settle(
    columns: NDArray[np.float64],
    target: NDArray[np.float64],
    x: NDArray[np.float64],
    joined: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Solve for the joined coefficients; those that hit zero on the way leave `joined`."""
    while True:
        solved = np.zeros_like(x)
        solved[joined] = np.linalg.lstsq(columns[:, joined], target, rcond=None)[0]
        negative = joined & (solved <= 0)
        if not negative.any():
            return solved
        step = (x[negative] / (x[negative] - solved[negative] + 1e-300)).min()
        x = x + step * (solved - x)
        joined &= x > _TOLERANCE * max(x.max(), 1e-300)
        x[~joined] = 0.0
