"""How sections of the page are laid out: a heading, a note, a key, and a panel a trace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from seer.report.timeline import Timeline

PAGE_WIDTH = 1160
PANEL_PADDING = 26
GAP = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """A trace on the page."""

    label: str
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class Layout:
    """How many panels stand side by side."""

    num_traces: int

    @property
    def columns(self) -> int:
        """Panels in a row."""
        if self.num_traces == 1:
            return 1
        return 2 if self.num_traces in {2, 4} else 3

    @property
    def panel_width(self) -> int:
        """Of a drawing in a panel, in pixels."""
        return (PAGE_WIDTH - GAP * (self.columns - 1)) // self.columns - PANEL_PADDING


def color(place: int) -> str:
    """CSS colour of the trace in this place."""
    return f"var(--c{place})"


def row(
    entries: Sequence[Entry],
    layout: Layout,
    panel: Callable[[Entry], str],
    class_: str = "",
) -> str:
    """A panel a trace, side by side."""
    panels = "".join(
        f'<div class="panel {class_}" style="--c:{color(place)}">'
        f'<h3><i class="key"></i>{escape(entry.label)}</h3>{panel(entry)}</div>'
        for place, entry in enumerate(entries)
    )
    return f'<div class="row" style="--columns:{layout.columns}">{panels}</div>'


def section(heading: str, note: str, body: str, keys: str = "") -> str:
    """`body` and `keys` are markup."""
    legend = f'<p class="legend">{keys}</p>' if keys else ""
    return (
        f'<section><h2>{escape(heading)}</h2><p class="note">{escape(note)}</p>'
        f"{legend}{body}</section>"
    )


def legend(color: str, words: str, class_: str = "key") -> str:
    """A patch of colour and what it stands for."""
    return f'<span><i class="{class_}" style="--c:{color}"></i>{escape(words)}</span>'


def tail_key() -> str:
    """What the shade stands for."""
    return legend("var(--tail)", "tail: 90 % to 100 % of the requests", "key shade")
