"""The sections of the page that show a rollout over time."""

from collections.abc import Sequence

import numpy as np

from seer.report.finish_chart import FinishCurve, finish_chart
from seer.report.gantt_chart import gantt_chart
from seer.report.layout import (
    PAGE_WIDTH,
    PANEL_PADDING,
    Entry,
    Layout,
    color,
    legend,
    row,
    section,
    tail_key,
)
from seer.report.strip_chart import MAX_STRIPS, Strip, StripAxes, strip_chart

MAX_BARS = 20_000
"""Of all Gantt charts together."""
SCALE_BINS = 200
SCALE_QUANTILE = 0.98
"""Strips are high enough for so much of the time, unless the peak is little higher."""
PEAK_ROOM = 1.5
KV_SCALES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)


def finished_section(entries: Sequence[Entry]) -> str:
    """Requests finished over time."""
    curves = [
        FinishCurve(
            label=entry.label,
            color=color(place),
            finish_times=entry.timeline.finish_times,
            num_requests=len(entry.timeline.requests),
            rounds=entry.timeline.rounds,
            end_s=entry.timeline.end_s,
        )
        for place, entry in enumerate(entries)
    ]
    note = "The tail, from 90 % to 100 % of the requests, is shaded, and solid in the bars."
    chart = finish_chart(curves, PAGE_WIDTH - PANEL_PADDING)
    return section("Finished requests", note, f'<div class="panel">{chart}</div>')


def running_section(entries: Sequence[Entry], layout: Layout, end_s: float) -> str:
    """Requests that run, by instance."""
    highest, is_cut = _running_scale(entries, end_s)
    axes = StripAxes(end_s=end_s, highest=highest, quantity="requests")

    def panel(entry: Entry) -> str:
        strips = [
            Strip(instance_id=line.instance_id, series=line.running)
            for line in entry.timeline.instances
        ]
        return strip_chart(strips, entry.timeline.rounds, axes, layout.panel_width)

    note = "One strip an instance." + _strips_cut(entries)
    if is_cut:
        note += " Short peaks are cut off."
    if any(entry.timeline.is_static for entry in entries):
        note += (
            " Where instances queue requests by themselves (static policies) this is what they "
            "reported when a request ended; before the first report, an estimate."
        )
    return section("Running requests", note, row(entries, layout, panel), tail_key())


def kv_section(entries: Sequence[Entry], layout: Layout, end_s: float) -> str:
    """KV in use, by instance."""
    axes = StripAxes(end_s=end_s, highest=_kv_scale(entries), quantity="% of KV memory")

    def panel(entry: Entry) -> str:
        strips = [
            Strip(
                instance_id=line.instance_id,
                series=line.kv,
                scale=line.kv_capacity_tokens / 100,
            )
            for line in entry.timeline.instances
        ]
        return strip_chart(strips, entry.timeline.rounds, axes, layout.panel_width)

    note = (
        "Tokens held over tokens that fit: prompts once an instance, and what requests that run or "
        "rest there have generated." + _strips_cut(entries)
    )
    if any(entry.timeline.is_static for entry in entries):
        note += " Static policies: as reported by the instance when a request ended."
    return section("KV use", note, row(entries, layout, panel), tail_key())


def gantt_section(entries: Sequence[Entry], layout: Layout, end_s: float) -> str:
    """Chunks, by instance."""
    max_bars = MAX_BARS // len(entries)

    def panel(entry: Entry) -> str:
        gantt = gantt_chart(entry.timeline, end_s, layout.panel_width, max_bars)
        total = len(entry.timeline.requests)
        if gantt.num_last == total:
            return gantt.markup
        left = total - gantt.num_last
        cut = (
            f"of {total:,} requests: the {gantt.num_last:,} that end last, and "
            f"{gantt.num_others:,} of the other {left:,}, evenly by their end"
        )
        return gantt.markup + f'<p class="note">{cut}</p>'

    note = "One bar a chunk, by instance; point at one to see its whole request."
    if any(entry.timeline.is_static for entry in entries):
        note += (
            " Under a static policy a bar begins when the instance got the request, queued or not."
        )
    keys = (
        legend("var(--c0)", "of a request that ends before the tail", "key pale")
        + legend("var(--c0)", "of a request that ends in the tail")
        + legend("var(--moved)", "its KV came from the pool")
        + legend("var(--lost)", "lost with its instance")
        + tail_key()
    )
    return section("Requests by instance", note, row(entries, layout, panel), keys)


def _strips_cut(entries: Sequence[Entry]) -> str:
    most = max(len(entry.timeline.instances) for entry in entries)
    return f" {MAX_STRIPS} of {most} instances are shown." if most > MAX_STRIPS else ""


def _running_scale(entries: Sequence[Entry], end_s: float) -> tuple[float, bool]:
    """Requests at the top of a strip, and whether some peak is higher."""
    edges = np.linspace(0.0, end_s, SCALE_BINS + 1)
    lines = [line for entry in entries for line in entry.timeline.instances]
    means = np.concatenate([line.running.on_grid(edges) for line in lines] or [np.ones(1)])
    peak = max((float(line.running.values.max(initial=0.0)) for line in lines), default=0.0)
    usual = float(np.quantile(means, SCALE_QUANTILE))
    if peak <= PEAK_ROOM * usual or usual == 0:
        return peak or 1.0, False
    return float(np.ceil(usual)), True


def _kv_scale(entries: Sequence[Entry]) -> float:
    """Per cent of KV memory at the top of a strip: the least round value over all peaks."""
    lines = [line for entry in entries for line in entry.timeline.instances]
    peaks = [100 * line.kv.values.max(initial=0.0) / line.kv_capacity_tokens for line in lines]
    return next((top for top in KV_SCALES if top >= max(peaks, default=0.0)), KV_SCALES[-1])
