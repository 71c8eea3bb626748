"""Quantities over time: steps, and lines between points; both can be put on a grid of bins."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """`values[i]` holds from `times[i]` (s, not decreasing) to the next; 0 before the first."""

    times: FloatArray
    values: FloatArray

    def on_grid(self, edges: FloatArray) -> FloatArray:
        """Mean over each bin between two `edges` (ascending): one value fewer than edges."""
        if not len(self.times):
            return np.zeros(len(edges) - 1)
        areas = np.concatenate(([0.0], np.cumsum(self.values[:-1] * np.diff(self.times))))
        place = np.searchsorted(self.times, edges, side="right") - 1
        area = areas[place] + self.values[place] * (edges - self.times[place])
        means: FloatArray = np.diff(np.where(place >= 0, area, 0.0)) / np.diff(edges)
        return means


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Points joined by straight lines; equal times make a jump. 0 before the first point."""

    times: FloatArray
    values: FloatArray

    def on_grid(self, edges: FloatArray) -> FloatArray:
        """Value in the middle of each bin between two `edges`: one value fewer than edges."""
        middles = (edges[1:] + edges[:-1]) / 2
        if not len(self.times):
            return np.zeros(len(middles))
        return np.interp(middles, self.times, self.values, left=0.0)


def lines_of_changes(times: FloatArray, jumps: FloatArray, slopes: FloatArray) -> Lines:
    """The sum of changes in any order: at `times[i]` a jump, and a change of slope (1/s)."""
    order = np.argsort(times, kind="stable")
    times, jumps, slopes = times[order], jumps[order], slopes[order]
    growth = np.concatenate(([0.0], np.cumsum(slopes)[:-1] * np.diff(times)))[: len(times)]
    after = np.cumsum(growth + jumps)
    points = np.column_stack((after - jumps, after)).ravel()
    return Lines(np.repeat(times, 2), np.maximum(points, 0.0))
