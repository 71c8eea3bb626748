"""Words of SVG: elements, numbers, scales, ticks and axes. Colours come from the page's style."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from seer.report.series import FloatArray

TICK_ROOM_PX = 52
"""Least distance between labels of a time axis."""


def element(name: str, *children: str, **attributes: str | float) -> str:
    """An element; `class_` is `class`, `stroke_width` is `stroke-width`. Children are markup."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    inner = "".join(children)
    return f"<{name}{pairs}>{inner}</{name}>" if inner else f"<{name}{pairs}/>"


def text(words: str, x: float, y: float, class_: str = "", anchor: str = "start") -> str:
    """Words at a place."""
    return element("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def titled(words: str) -> str:
    """What the browser shows when the pointer rests on the element around it."""
    return f"<title>{escape(words)}</title>"


def drawing(width: float, height: float, label: str, *children: str) -> str:
    """A whole drawing that scales with the page; `label` is read to those who do not see it."""
    box = f"0 0 {number(width)} {number(height)}"
    return element("svg", *children, viewBox=box, role="img", aria_label=label)


def number(value: float) -> str:
    """A coordinate: one decimal, none where it is zero."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps [low, high] linearly to [start, end] of a drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Place of a value."""
        return self.start + (value - self.low) * self._factor

    def many(self, values: FloatArray) -> FloatArray:
        """Places of many values."""
        return self.start + (values - self.low) * self._factor

    @property
    def _factor(self) -> float:
        return (self.end - self.start) / ((self.high - self.low) or 1.0)


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round values from `low` to `high`: steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if span <= 0 or count < 1:
        return [low]
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def short(value: float) -> str:
    """A number in few characters: 0.2, 9500, 12.3k, 1.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * (10 if unit == "k" else 1):
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"  # noqa: PLR2004


def time_axis(x: Scale, y: float, top: float) -> str:
    """Seconds below a plot whose lower edge is at `y`, with faint lines up to `top`."""
    count = max(2, int(abs(x.end - x.start) / TICK_ROOM_PX))
    return number_axis(x, y, top, ticks(x.low, x.high, count), " s")


def number_axis(x: Scale, y: float, top: float, values: Sequence[float], unit: str = "") -> str:
    """Values below a plot, the last with its unit."""
    parts = [element("line", x1=x.start, x2=x.end, y1=y, y2=y, class_="axis")]
    for value in values:
        place = x(value)
        parts.append(element("line", x1=place, x2=place, y1=top, y2=y, class_="grid"))
        words = short(value) + (unit if value == values[-1] else "")
        parts.append(text(words, place, y + 14, "tick", "middle"))
    return "".join(parts)


def value_axis(y: Scale, left: float, right: float, values: Sequence[float], unit: str = "") -> str:
    """Values left of a plot, with faint lines across."""
    parts = []
    for value in values:
        place = y(value)
        parts.append(element("line", x1=left, x2=right, y1=place, y2=place, class_="grid"))
        parts.append(text(short(value) + unit, left - 6, place + 3.5, "tick", "end"))
    return "".join(parts)


def step_area(edges: FloatArray, values: FloatArray, base: float) -> str:
    """The area between a base and one value a bin, all in places of the drawing."""
    rounded = np.round(values, 1)
    changes = np.flatnonzero(np.diff(rounded)) + 1
    parts = [f"M{number(edges[0])} {number(base)}V{number(rounded[0])}"]
    parts += [f"H{number(edges[i])}V{number(rounded[i])}" for i in changes.tolist()]
    return "".join(parts) + f"H{number(edges[-1])}V{number(base)}Z"


def line_path(xs: Sequence[float], ys: Sequence[float]) -> str:
    """A path through points; NaN leaves a gap."""
    parts, is_down = [], False
    for x, y in zip(xs, ys, strict=True):
        if math.isnan(y):
            is_down = False
            continue
        parts.append(f"{'L' if is_down else 'M'}{number(x)} {number(y)}")
        is_down = True
    return "".join(parts)


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else number(value)
