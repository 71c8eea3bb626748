"""Charts of length estimates: error and rank correlation as requests finish; estimate by truth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seer.report.estimates import Checkpoint
from seer.report.svg import (
    Scale,
    drawing,
    element,
    line_path,
    number,
    number_axis,
    text,
    ticks,
    titled,
    value_axis,
)

LEFT, RIGHT, TOP, BOTTOM = 44, 20, 8, 36
HEIGHT = 200
MAX_POINTS = 800
"""Points of one estimator in a scatter."""
SCATTER_SHARE = 0.5
"""The scatter shows estimates when so many requests are finished."""


@dataclass(frozen=True, slots=True)
class EstimateTrack:
    """What one estimator said over a trace."""

    name: str
    color: str
    """A CSS colour."""
    checkpoints: Sequence[Checkpoint]

    @property
    def errors(self) -> list[float]:
        """Mean absolute errors, by checkpoint."""
        return [checkpoint.mean_error_tokens for checkpoint in self.checkpoints]

    @property
    def correlations(self) -> list[float]:
        """Spearman's, by checkpoint."""
        return [checkpoint.rank_correlation for checkpoint in self.checkpoints]

    def at(self, share: float) -> Checkpoint | None:
        """The checkpoint at a share of finished requests, if the trace reaches it."""
        return next((c for c in self.checkpoints if math.isclose(c.share, share)), None)


def error_chart(tracks: Sequence[EstimateTrack], highest: float, width: int) -> str:
    """Mean absolute error in tokens over the share of requests that are finished."""
    y = Scale(0.0, highest, HEIGHT - BOTTOM, TOP)
    values = [(track, track.errors) for track in tracks]
    return _share_chart("mean absolute error of length estimates", values, y, width)


def correlation_chart(tracks: Sequence[EstimateTrack], lowest: float, width: int) -> str:
    """Spearman's rank correlation over the share of requests that are finished."""
    y = Scale(lowest, 1.0, HEIGHT - BOTTOM, TOP)
    values = [(track, track.correlations) for track in tracks]
    return _share_chart("rank correlation of length estimates", values, y, width)


def scatter_chart(tracks: Sequence[EstimateTrack], highest: float, width: int) -> str:
    """Estimate over truth, a point a request; on the diagonal they agree."""
    size = min(width, 420)
    x = Scale(0.0, highest, LEFT, size - RIGHT)
    y = Scale(0.0, highest, size - BOTTOM, TOP)
    marks = ticks(0.0, highest, 4)
    parts = [
        number_axis(x, y.start, TOP, marks),
        text("true tokens", (x.start + x.end) / 2, y.start + 29, "tick", "middle"),
        value_axis(y, LEFT, size - RIGHT, marks),
        element("path", d=line_path([x.start, x.end], [y.start, y.end]), class_="ninety"),
    ]
    parts += [_points(track, x, y) for track in tracks]
    return drawing(size, size, "length estimates against true lengths", *parts)


def _share_chart(
    label: str,
    values: Sequence[tuple[EstimateTrack, list[float]]],
    y: Scale,
    width: int,
) -> str:
    x = Scale(0.0, 1.0, LEFT, width - RIGHT)
    axis = Scale(0.0, 100.0, x.start, x.end)
    parts = [
        number_axis(axis, y.start, TOP, [0, 25, 50, 75, 100], "%"),
        text("requests finished", (x.start + x.end) / 2, y.start + 29, "tick", "middle"),
        value_axis(y, LEFT, width - RIGHT, ticks(y.low, y.high, 4)),
    ]
    for track, numbers in values:
        xs = [x(checkpoint.share) for checkpoint in track.checkpoints]
        path = line_path(xs, [y(value) for value in numbers])
        style = f"--c:{track.color}"
        parts.append(element("path", titled(track.name), d=path, class_="line", style=style))
    return drawing(width, HEIGHT, label, *parts)


def _points(track: EstimateTrack, x: Scale, y: Scale) -> str:
    checkpoint = track.at(SCATTER_SHARE)
    if checkpoint is None or not len(checkpoint.truths):
        return ""
    count = len(checkpoint.truths)
    picked = np.unique(np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(int))
    xs, ys = x.many(checkpoint.truths[picked]), y.many(checkpoint.estimates[picked])
    dots = "".join(f"M{number(a)} {number(b)}h0" for a, b in zip(xs, ys, strict=True))
    style = f"--c:{track.color}"
    return element("path", titled(track.name), d=dots, class_="dots", style=style)
