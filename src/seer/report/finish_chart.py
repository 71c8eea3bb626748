"""Share of the requests finished over time, all traces in one drawing, tails marked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seer.report.rounds import Round
from seer.report.series import FloatArray
from seer.report.svg import Scale, drawing, element, number, text, time_axis, titled, value_axis
from seer.report.tables import amount

LEFT, RIGHT, TOP, PLOT_HEIGHT = 44, 12, 10, 250
AXIS_ROOM = 30
BAR, BAR_GAP = 12, 9
"""Bars below the plot, one a trace: all of its time, the tail in full colour."""
MAX_POINTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinishCurve:
    """One trace."""

    label: str
    color: str
    """A CSS colour."""
    finish_times: FloatArray
    num_requests: int
    rounds: Sequence[Round]
    end_s: float


def finish_chart(curves: Sequence[FinishCurve], width: int) -> str:
    """The drawing, `width` pixels wide."""
    end_s = max(curve.end_s for curve in curves)
    x = Scale(0.0, end_s, LEFT, width - RIGHT)
    y = Scale(0.0, 100.0, TOP + PLOT_HEIGHT, TOP)
    parts = [
        time_axis(x, y.start, TOP),
        value_axis(y, LEFT, width - RIGHT, [0, 25, 50, 75, 90, 100], "%"),
        element("line", x1=LEFT, x2=width - RIGHT, y1=y(90), y2=y(90), class_="ninety"),
    ]
    parts += [_curve(curve, x, y) for curve in curves]
    top = y.start + AXIS_ROOM
    for place, curve in enumerate(curves):
        parts.append(_bar(curve, x, top + place * (BAR + BAR_GAP)))
    height = top + len(curves) * (BAR + BAR_GAP)
    return drawing(width, height, "share of requests finished over time", *parts)


def _curve(curve: FinishCurve, x: Scale, y: Scale) -> str:
    count = len(curve.finish_times)
    picked = np.unique(np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(int))
    points = "".join(
        f"H{number(x(curve.finish_times[i]))}V{number(y(100 * (i + 1) / curve.num_requests))}"
        for i in picked.tolist()
    )
    path = f"M{number(x.start)} {number(y.start)}{points}"
    line = element(
        "path",
        titled(f"{curve.label}: {count} of {curve.num_requests} requests"),
        d=path,
        class_="line",
        style=f"--c:{curve.color}",
    )
    return "".join(_tail_area(curve, each, x, y) for each in curve.rounds) + line


def _tail_area(curve: FinishCurve, each: Round, x: Scale, y: Scale) -> str:
    """Shade from 90 % to 100 % while the tail lasts."""
    if each.tail_s is None:
        return ""
    return element(
        "rect",
        x=x(each.tail_s),
        y=y.end,
        width=max(1.0, x(each.end_s) - x(each.tail_s)),
        height=y(90) - y.end,
        class_="wash",
        style=f"--c:{curve.color}",
    )


def _bar(curve: FinishCurve, x: Scale, top: float) -> str:
    parts = []
    for each in curve.rounds:
        tail = each.end_s if each.tail_s is None else each.tail_s
        parts.append(_piece(x(each.start_s), x(tail), top, "bar"))
        parts.append(_piece(x(tail), max(x(each.end_s), x(tail) + 1), top, "bar-tail"))
    tail_s = sum(r.end_s - r.tail_s for r in curve.rounds if r.tail_s is not None)
    total_s = sum(r.end_s - r.start_s for r in curve.rounds)
    words = f"{curve.label}: {amount(total_s)} s, tail {amount(tail_s)} s"
    parts.append(text(words, x.start + 6, top + BAR - 2.5, "bar-label"))
    return element("g", titled(words), *parts, style=f"--c:{curve.color}")


def _piece(start: float, end: float, top: float, class_: str) -> str:
    return element("rect", x=start, y=top, width=max(0.0, end - start), height=BAR, class_=class_)
