"""Tables of the page: traces compared, and the accuracy of length estimates."""

import math
from collections.abc import Sequence
from html import escape

from seer.report.estimate_charts import EstimateTrack
from seer.report.svg import short
from seer.report.timeline import Timeline

TABLE_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of finished requests at which estimates are tabulated."""

_COLUMNS = (
    "trace",
    "policy",
    "figures",
    "requests",
    "output tokens",
    "tokens/s",
    "ratio to first",
    "total s",
    "tail s",
    "preemptions",
    "tokens re-prefilled",
    "KV moved GB",
    "running at once",
    "tokens a step",
    "drafts accepted",
    "instances lost",
)


def comparison_table(
    labels: Sequence[str], colors: Sequence[str], timelines: Sequence[Timeline]
) -> str:
    """A row a trace; the ratio is that of tokens a second to the first trace's."""
    first = timelines[0].metrics.throughput_tokens_per_s
    rows = [
        _comparison_row(label, color, timeline, first)
        for label, color, timeline in zip(labels, colors, timelines, strict=True)
    ]
    return _table(_COLUMNS, rows, num_words=3)


def estimate_table(tracks: Sequence[EstimateTrack], *, is_rank: bool) -> str:
    """A row an estimator, a column a share of finished requests: rank correlation, or error."""
    rows = [
        [
            _key(track.color, track.name),
            *(_measure(track, s, is_rank=is_rank) for s in TABLE_SHARES),
        ]
        for track in tracks
    ]
    return _table(["", *(f"{share:.0%}" for share in TABLE_SHARES)], rows, num_words=1)


def _comparison_row(label: str, color: str, timeline: Timeline, first: float) -> list[str]:
    metrics = timeline.metrics
    return [
        _key(color, label),
        escape(timeline.policy),
        "simulated" if timeline.is_simulated else "measured",
        f"{metrics.num_requests:,}",
        f"{metrics.output_tokens:,}",
        amount(metrics.throughput_tokens_per_s),
        f"{metrics.throughput_tokens_per_s / first:.2f}" if first else "-",
        amount(metrics.total_time_s),
        amount(metrics.tail_time_s),
        f"{metrics.preemptions:,}",
        f"{metrics.reprefilled_tokens:,}",
        amount(metrics.kv_bytes_moved / 1e9),
        amount(timeline.mean_running),
        amount(metrics.acceptance_length),
        _share(metrics.accepted_tokens, metrics.drafted_tokens),
        f"{metrics.instances_lost:,}",
    ]


def _share(count: int, of: int) -> str:
    return f"{count / of:.0%} of {of:,}" if of else "-"


def _measure(track: EstimateTrack, share: float, *, is_rank: bool) -> str:
    checkpoint = track.at(share)
    if checkpoint is None:
        return "-"
    value = checkpoint.rank_correlation if is_rank else checkpoint.mean_error_tokens
    if math.isnan(value):
        return "-"
    return f"{value:.2f}" if is_rank else short(value)


def amount(value: float) -> str:
    """Three digits or so, thousands set apart."""
    if abs(value) < 5e-4:  # noqa: PLR2004 - half of the last digit
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(digits, 0), 3)}f}"


def _key(color: str, words: str) -> str:
    return f'<i class="key" style="--c:{color}"></i>{escape(words)}'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], num_words: int) -> str:
    """Cells are markup; the first `num_words` columns are words, the others numbers."""
    body = "".join(f"<tr>{_cells('td', row, num_words)}</tr>" for row in rows)
    head = _cells("th", [escape(name) for name in heads], num_words)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(tag: str, cells: Sequence[str], num_words: int) -> str:
    return "".join(
        f'<{tag} class="words">{cell}</{tag}>' if i < num_words else f"<{tag}>{cell}</{tag}>"
        for i, cell in enumerate(cells)
    )
