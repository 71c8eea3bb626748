"""A strip for each instance, one above the other, with one quantity over time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seer.report.rounds import Round
from seer.report.series import Lines, Steps
from seer.report.svg import Scale, drawing, element, step_area, text, time_axis, titled

MAX_STRIPS = 64
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 20, 22
"""Margins in pixels."""
TOTAL_HEIGHT = 448
MIN_HEIGHT, MAX_HEIGHT = 12, 60
"""Of one strip."""
GAP = 2
MIN_LABEL_PX = 10
"""Between labels of strips."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One instance."""

    instance_id: int
    series: Steps | Lines
    scale: float = 1.0
    """What the values are divided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StripAxes:
    """What all charts of a row share."""

    end_s: float
    highest: float
    quantity: str
    """With its unit."""


def strip_chart(
    strips: Sequence[Strip], rounds: Sequence[Round], axes: StripAxes, width: int
) -> str:
    """The drawing, `width` pixels wide, up to the end of the last round; tails are shaded."""
    shown = _evenly(strips)
    height = int(min(MAX_HEIGHT, max(MIN_HEIGHT, TOTAL_HEIGHT // max(1, len(shown)))))
    bottom = TOP + height * len(shown)
    x = Scale(0.0, axes.end_s, LEFT, width - RIGHT)
    label_every = -(-MIN_LABEL_PX // height)
    parts = [shaded_tails(rounds, x, TOP, bottom), time_axis(x, bottom, TOP)]
    for place, strip in enumerate(shown):
        base = TOP + height * (place + 1)
        y = Scale(0.0, axes.highest, base, base - height + GAP)
        parts.append(_strip(strip, x, y, axes.quantity, rounds[-1].end_s))
        if place % label_every == 0:
            parts.append(
                text(str(strip.instance_id), LEFT - 6, base - height / 2 + 4, "tick", "end")
            )
    parts.append(text(f"strip height: {axes.highest:.4g} {axes.quantity}", LEFT, TOP - 7, "tick"))
    return drawing(width, bottom + BOTTOM, f"{axes.quantity} on each instance over time", *parts)


def shaded_tails(rounds: Sequence[Round], x: Scale, top: float, bottom: float) -> str:
    """Bands from 90 % to 100 % of a round's requests."""
    return "".join(
        element(
            "rect",
            titled(f"tail: {each.tail_s:.4g} to {each.end_s:.4g} s"),
            x=x(each.tail_s),
            y=top,
            width=max(0.5, x(each.end_s) - x(each.tail_s)),
            height=bottom - top,
            class_="tail",
        )
        for each in rounds
        if each.tail_s is not None
    )


def _strip(strip: Strip, x: Scale, y: Scale, quantity: str, end_s: float) -> str:
    num_bins = max(1, int(x(end_s) - x.start))
    edges = np.linspace(0.0, end_s or x.high, num_bins + 1)
    values = strip.series.on_grid(edges) / strip.scale
    name = titled(
        f"instance {strip.instance_id}: mean {values.mean():.1f}, "
        f"peak {values.max():.1f} {quantity}"
    )
    area = step_area(x.many(edges), y.many(np.minimum(values, y.high)), y.start)
    line = element("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="base")
    return line + element("path", name, d=area, class_="area")


def _evenly(strips: Sequence[Strip]) -> Sequence[Strip]:
    """At most `MAX_STRIPS` of them, evenly spaced."""
    if len(strips) <= MAX_STRIPS:
        return strips
    places = np.linspace(0, len(strips) - 1, MAX_STRIPS).round().astype(int)
    return [strips[place] for place in places.tolist()]
