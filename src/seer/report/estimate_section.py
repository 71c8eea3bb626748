"""The section of the page that sets length estimates against the truth."""

import math
from collections.abc import Sequence

from seer.report.estimate_charts import (
    SCATTER_SHARE,
    EstimateTrack,
    correlation_chart,
    error_chart,
    scatter_chart,
)
from seer.report.estimates import track_estimates
from seer.report.layout import Entry, Layout, legend, row, section
from seer.report.tables import TABLE_SHARES, estimate_table
from seer.report.timeline import Timeline
from seer.scheduling.conditional_lengths import ConditionalEstimator
from seer.scheduling.length_estimates import GroupMaxEstimator

SHARES = tuple(sorted({i / 20 for i in range(1, 20)} | set(TABLE_SHARES)))
"""Shares of finished requests at which estimators are asked."""


def estimate_section(entries: Sequence[Entry], layout: Layout) -> str:
    """Error, rank correlation, and estimate over truth."""
    tracks = [_tracks(entry.timeline) for entry in entries]
    every = [track for each in tracks for track in each]
    points = [c for track in every if (c := track.at(SCATTER_SHARE)) is not None and len(c.truths)]
    error = _highest([value for track in every for value in track.errors])
    length = _highest([float(max(c.truths.max(), c.estimates.max())) for c in points])
    rank = min([0.0, *(v for track in every for v in track.correlations if not math.isnan(v))])
    lowest = math.floor(rank * 5) / 5

    width = layout.panel_width if layout.columns > 1 else layout.panel_width // 3 - 8

    def panel(entry: Entry) -> str:
        own = tracks[entries.index(entry)]
        errors = estimate_table(own, is_rank=False) + error_chart(own, error, width)
        ranks = estimate_table(own, is_rank=True) + correlation_chart(own, lowest, width)
        parts = (
            ("mean absolute error (tokens)", errors),
            ("rank correlation (Spearman)", ranks),
            (
                "estimate over truth, half of the requests finished",
                scatter_chart(own, length, width),
            ),
        )
        blocks = "".join(f'<div><p class="note">{name}</p>{body}</div>' for name, body in parts)
        return f'<div class="estimates">{blocks}</div>'

    note = (
        "What two estimators would have said about the unfinished requests at each moment of the "
        "trace, whether or not its policy used them, against the lengths that they came to. "
        "“Longest sibling” is the paper's (section 4.1): the longest finished member of the group, "
        "else the limit. “Conditional” is Seer's own. Which requests are still unfinished depends "
        "on the policy, so compare the estimators within a trace."
    )
    keys = "".join(legend(track.color, track.name) for track in tracks[0])
    return section("Length estimates", note, row(entries, layout, panel), keys)


def _tracks(timeline: Timeline) -> list[EstimateTrack]:
    return [
        EstimateTrack(
            "longest sibling", "var(--c7)", track_estimates(timeline, GroupMaxEstimator(), SHARES)
        ),
        EstimateTrack(
            "conditional", "var(--c3)", track_estimates(timeline, ConditionalEstimator(), SHARES)
        ),
    ]


def _highest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=0.0) or 1.0
