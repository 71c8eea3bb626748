import io
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from seer.report.perfetto import perfetto_events, write_perfetto
from seer.report.timeline import Timeline
from support.scenario import Outcome


@pytest.fixture(params=["divided", "group_round_robin"])
def made(
    request: pytest.FixtureRequest,
    outcome: Callable[..., Outcome],
    timeline: Callable[..., Timeline],
) -> Timeline:
    return timeline(outcome(request.param, 3).records, request.param)


def test_the_file_is_json(made: Timeline) -> None:
    """Of the array of events under its name."""
    file = io.BytesIO()
    count = write_perfetto(made, file)
    assert len(json.loads(file.getvalue())["traceEvents"]) == count


def test_slices_of_a_slot_do_not_overlap(made: Timeline) -> None:
    """One slice a chunk; a slot belongs to one instance, and both are named."""
    events = list(perfetto_events(made))
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == len(made.chunks)
    by_slot = defaultdict(list)
    for each in slices:
        by_slot[each["tid"]].append((each["ts"], each["ts"] + each["dur"], each["pid"]))
    for spans in by_slot.values():
        spans.sort()
        assert len({pid for _, _, pid in spans}) == 1
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    named = {(e["name"], e["pid"] if e["name"] == "process_name" else e["tid"]) for e in events}
    assert {("thread_name", tid) for tid in by_slot} <= named
    assert {("process_name", each["pid"]) for each in slices} <= named
    assert not set(by_slot) & {each["pid"] for each in slices}


def test_arrows_join_the_chunks_of_a_request(made: Timeline) -> None:
    """Out of all but the last, into all but the first, under one id."""
    slices = [event for event in perfetto_events(made) if event["ph"] == "X"]
    chunks = Counter(each["name"] for each in slices)
    for name, count in chunks.items():
        mine = sorted((e for e in slices if e["name"] == name), key=lambda e: e["args"]["chunk"])
        assert [e.get("flow_in", False) for e in mine] == [i > 0 for i in range(count)]
        assert [e.get("flow_out", False) for e in mine] == [i < count - 1 for i in range(count)]
        assert len({e.get("bind_id") for e in mine}) == 1
    ids = {each["bind_id"] for each in slices if "bind_id" in each}
    assert len(ids) == sum(count > 1 for count in chunks.values())


def test_counters_and_instants(made: Timeline) -> None:
    """Every instance counts its requests and KV; ends and losses are marked."""
    events = list(perfetto_events(made))
    counted = {(e["name"], e["pid"]) for e in events if e["ph"] == "C"}
    assert counted == {(n, line.instance_id + 1) for line in made.instances for n in _COUNTERS}
    marks = Counter(e["name"].split()[0] for e in events if e["ph"] == "i")
    assert marks["finished"] == made.chunks.is_last.sum()
    assert marks["instance"] == len(made.losses)


_COUNTERS = ("running", "KV")
