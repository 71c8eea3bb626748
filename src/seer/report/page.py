"""The page: one HTML file that needs nothing else, for one or more traces side by side.

Drawings of one row share their axes, so that traces compare at a glance. Nothing is loaded from
elsewhere: style and drawings are inline, there is no script, and the page's own policy forbids both
scripts and requests.
"""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from seer.errors import InvalidInput
from seer.report.estimate_section import estimate_section
from seer.report.layout import Entry, Layout, color
from seer.report.sections import finished_section, gantt_section, kv_section, running_section
from seer.report.tables import amount, comparison_table

MAX_TRACES = 8
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(title: str, entries: Sequence[Entry]) -> str:
    """The whole page. Raises InvalidInput for more traces than there are colours."""
    if len(entries) > MAX_TRACES:
        raise InvalidInput("traces", len(entries), f"allowed: at most {MAX_TRACES}")
    layout = Layout(len(entries))
    end_s = max(entry.timeline.end_s for entry in entries) or 1.0
    sections = [
        _summary(entries),
        finished_section(entries),
        running_section(entries, layout, end_s),
        kv_section(entries, layout, end_s),
        gantt_section(entries, layout, end_s),
        estimate_section(entries, layout),
        _footer(),
    ]
    style = files("seer.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def _summary(entries: Sequence[Entry]) -> str:
    timelines = [entry.timeline for entry in entries]
    labels = [entry.label for entry in entries]
    colors = [color(place) for place in range(len(entries))]
    return f"<p>{escape(_in_a_sentence(entries))}</p>" + comparison_table(labels, colors, timelines)


def _in_a_sentence(entries: Sequence[Entry]) -> str:
    first = entries[0]
    own = first.timeline.metrics
    if len(entries) == 1:
        kind = "Simulated" if first.timeline.is_simulated else "Measured"
        return (
            f"{kind}: {own.num_requests:,} requests, {own.output_tokens:,} output tokens in "
            f"{amount(own.total_time_s)} s ({amount(own.throughput_tokens_per_s)} tokens/s); the "
            f"last tenth of the requests took {amount(own.tail_time_s)} s."
        )
    best = max(entries, key=lambda entry: entry.timeline.metrics.throughput_tokens_per_s)
    fastest = best.timeline.metrics
    if best is first or not own.throughput_tokens_per_s:
        return f"{first.label} made the most tokens a second."
    ratio = fastest.throughput_tokens_per_s / own.throughput_tokens_per_s
    return (
        f"{best.label} made {ratio:.2f} times the tokens a second of {first.label}; its last tenth "
        f"of the requests took {amount(fastest.tail_time_s)} s, against "
        f"{amount(own.tail_time_s)} s."
    )


def _footer() -> str:
    return (
        '<footer class="note">Times are seconds since the first groups were submitted. '
        "Throughput is output tokens over the time in which some group was unfinished. "
        "All of this is computed from the traces alone (seer report).</footer>"
    )
