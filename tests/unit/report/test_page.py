import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from seer.errors import InvalidInput
from seer.report.gantt_chart import gantt_chart
from seer.report.layout import Entry
from seer.report.page import MAX_TRACES, render_page
from seer.report.timeline import Timeline
from support.scenario import Faults, Outcome


class Checker(HTMLParser):
    """Collects text and checks that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture
def entries(
    outcome: Callable[..., Outcome], timeline: Callable[..., Timeline]
) -> dict[str, Timeline]:
    policies = ("group_round_robin", "divided")
    return {policy: timeline(outcome(policy, 3).records, policy) for policy in policies}


def test_the_page_needs_nothing_else(entries: dict[str, Timeline]) -> None:
    """Well-formed; no script, no address, no file; finite coordinates."""
    page = render_page("Two", [Entry(name, each) for name, each in entries.items()])
    checker = parsed(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(checker.tags)
    assert not re.search(r"https?://|url\(|@import|src=|href=", page)
    assert "nan" not in re.findall(r'="([^"]*)"', page)
    assert not re.search(r'(?:d|x|y|x1|x2|y1|y2|width|height)="[^"]*(?:nan|inf)', page)


def test_traces_stand_side_by_side(entries: dict[str, Timeline]) -> None:
    """Each in each row, in its own colour, with a row in the table; the policies are named."""
    page = render_page("Two", [Entry(name, each) for name, each in entries.items()])
    words = parsed(page).text
    for name in entries:
        assert words.count(name) >= 5
    for heading in ("Finished requests", "Running requests", "KV use", "Length estimates"):
        assert heading in words
    assert page.count('style="--columns:2"') == 4
    assert "measured" in words


def test_words_of_the_user_are_escaped(entries: dict[str, Timeline]) -> None:
    """A title and a name are text, whatever is in them."""
    page = render_page("<b>&", [Entry('"><i>', entries["divided"])])
    words = parsed(page).text
    assert "<b>&" in words
    assert '"><i>' in words
    assert "<b>" not in page
    assert "<i>" not in page


def test_a_trace_that_was_cut_short_has_a_page(
    outcome: Callable[..., Outcome], timeline: Callable[..., Timeline]
) -> None:
    """Even one that ends with the submission."""
    records = outcome("divided", 1, Faults()).records
    for count in (len(records) // 2, 5):
        parsed(render_page("Cut", [Entry("cut", timeline(records[:count]))]))


def test_a_long_gantt_keeps_the_last_and_some_of_the_others(entries: dict[str, Timeline]) -> None:
    """And says how many; a short one keeps all."""
    made = entries["divided"]
    count = len(made.requests)
    assert gantt_chart(made, made.end_s, 500, 20_000).num_last == count
    cut = gantt_chart(made, made.end_s, 500, len(made.chunks) // 2)
    assert 0 < cut.num_last < count
    assert 0 < cut.num_others < count - cut.num_last
    parsed(cut.markup)


def test_there_are_only_so_many_colours(entries: dict[str, Timeline]) -> None:
    """More traces are refused."""
    many = [Entry(str(i), entries["divided"]) for i in range(MAX_TRACES + 1)]
    with pytest.raises(InvalidInput, match="traces: got 9; allowed: at most 8"):
        render_page("Many", many)
