"""Requests over time by instance: one bar a chunk, chunks that overlap on different lanes.

Only so many bars can be drawn. Of a long trace half of the requests kept are those that end last,
which make the tail; the other half is spread evenly over the others in the order of their end.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from seer.report.chunk_table import Fate
from seer.report.lanes import pack_lanes
from seer.report.series import IntArray
from seer.report.strip_chart import shaded_tails
from seer.report.svg import Scale, drawing, element, number, text, time_axis, titled
from seer.report.timeline import Timeline

LEFT, RIGHT, TOP, BOTTOM = 34, 8, 6, 22
MAX_LANES = 1200
PLOT_HEIGHT = 720
"""At most, unless there are so many instances that each keeps only its least height."""
MAX_LANE_PX = 9.0
INSTANCE_GAP = 6


@dataclass(frozen=True, slots=True)
class Gantt:
    """A drawing, and how much of the trace is in it."""

    markup: str
    num_last: int
    """Requests shown that end last; all of them when nothing is left out."""
    num_others: int
    """Requests shown out of those that end before."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Rows of the requests that are drawn; the first `num_last` are those that end last."""

    rows: IntArray
    num_last: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Packed:
    """Chunks to be drawn, each on a lane of its instance."""

    rows: IntArray
    lanes: IntArray
    heights: dict[int, int]
    """Lanes of each instance, all instances of the trace included."""


def gantt_chart(timeline: Timeline, end_s: float, width: int, max_bars: int) -> Gantt:
    """The drawing, `width` pixels wide, its time axis up to `end_s`."""
    kept, packed = _fit(timeline, max_bars)
    num_lanes = max(1, sum(packed.heights.values()))
    lane_px = min(MAX_LANE_PX, PLOT_HEIGHT / num_lanes)
    tops, bottom = _tops(packed.heights, lane_px)
    x = Scale(0.0, end_s, LEFT, width - RIGHT)
    parts = [shaded_tails(timeline.rounds, x, TOP, bottom), time_axis(x, bottom, TOP)]
    for instance_id, top in tops.items():
        middle = top + packed.heights[instance_id] * lane_px / 2
        parts.append(text(str(instance_id), LEFT - 6, middle + 4, "tick", "end"))
        line = top - INSTANCE_GAP / 2
        parts.append(element("line", x1=LEFT, x2=width - RIGHT, y1=line, y2=line, class_="base"))
    parts.append(element("g", *_bars(timeline, packed, x, tops, lane_px), class_="bars"))
    parts += [_loss(timeline, t, x, TOP, bottom) for t, _ in timeline.losses]
    markup = drawing(width, bottom + BOTTOM, "chunks of requests on each instance", *parts)
    return Gantt(markup, kept.num_last, len(kept.rows) - kept.num_last)


def _fit(timeline: Timeline, max_bars: int) -> tuple[_Kept, _Packed]:
    """As many requests as bars and lanes allow."""
    count = len(timeline.requests)
    while True:
        kept = _keep(timeline, count)
        packed = _pack(timeline, kept.rows)
        excess = max(sum(packed.heights.values()) / MAX_LANES, len(packed.rows) / max_bars)
        if excess <= 1 or count <= len(packed.heights):
            return kept, packed
        count = min(count - 1, int(count / excess))


def _keep(timeline: Timeline, count: int) -> _Kept:
    """About `count` requests: half of them the last to end, the others spread evenly."""
    finish = np.nan_to_num(timeline.requests.finish_s, nan=np.inf)
    order = np.argsort(-finish, kind="stable")
    if count >= len(order):
        return _Kept(order, len(order))
    num_last = max(1, count // 2)
    step = -(-(len(order) - num_last) // max(1, count - num_last))
    others = order[num_last::step]
    return _Kept(np.concatenate((order[:num_last], others)), num_last)


def _pack(timeline: Timeline, requests: IntArray) -> _Packed:
    is_kept = np.zeros(len(timeline.requests), dtype=np.bool_)
    is_kept[requests] = True
    rows = np.flatnonzero(is_kept[timeline.chunks.request])
    lanes = pack_lanes(timeline.chunks, rows)
    heights = {line.instance_id: 1 for line in timeline.instances}
    for instance_id, lane in zip(timeline.chunks.instance[rows].tolist(), lanes, strict=True):
        heights[instance_id] = max(heights[instance_id], int(lane) + 1)
    return _Packed(rows=rows, lanes=lanes, heights=heights)


def _tops(heights: dict[int, int], lane_px: float) -> tuple[dict[int, float], float]:
    """Upper edge of each instance, and the lower edge of the last."""
    tops, y = {}, float(TOP + INSTANCE_GAP)
    for instance_id, height in heights.items():
        tops[instance_id] = y
        y += height * lane_px + INSTANCE_GAP
    return tops, y


def _bars(
    timeline: Timeline, packed: _Packed, x: Scale, tops: dict[int, float], lane_px: float
) -> list[str]:
    """One path a request and kind of bar, so that a whole request lights up under the pointer."""
    chunks = timeline.chunks
    thickness = number(max(0.4, lane_px - (1 if lane_px > 3 else 0)))  # noqa: PLR2004 - px
    paths: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row, lane in zip(packed.rows.tolist(), packed.lanes.tolist(), strict=True):
        start, end = x(float(chunks.start_s[row])), x(float(chunks.end_s[row]))
        top = tops[int(chunks.instance[row])] + lane * lane_px
        length = number(max(0.3, end - start - (0.6 if end - start > 4 else 0)))  # noqa: PLR2004
        bar = f"M{number(start)} {number(top)}h{length}v{thickness}h-{length}z"
        paths[int(chunks.request[row])][_kind(timeline, row)].append(bar)
    return [
        element(
            "g",
            titled(_words(timeline, request)),
            *(element("path", d="".join(bars), class_=kind) for kind, bars in kinds.items()),
        )
        for request, kinds in paths.items()
    ]


def _kind(timeline: Timeline, row: int) -> str:
    chunks = timeline.chunks
    if chunks.fate[row] == Fate.LOST:
        return "lost"
    if chunks.is_loaded[row]:
        return "moved"
    finish = timeline.requests.finish_s[chunks.request[row]]
    is_tail = any(
        each.tail_s is not None and each.tail_s < finish <= each.end_s for each in timeline.rounds
    )
    return "late" if is_tail else "early"


def _words(timeline: Timeline, request: int) -> str:
    requests = timeline.requests
    finish = float(requests.finish_s[request])
    end = "not finished" if np.isnan(finish) else f"finished at {finish:,.1f} s"
    return f"request {requests.id_of(request)}: {requests.num_tokens[request]:,} tokens, {end}"


def _loss(timeline: Timeline, t: float, x: Scale, top: float, bottom: float) -> str:
    lost = ", ".join(str(i) for time, i in timeline.losses if time == t)
    words = titled(f"instance {lost} lost at {t:.1f} s")
    return element("line", words, x1=x(t), x2=x(t), y1=top, y2=bottom, class_="loss")
