"""A timeline as Chrome trace-event JSON, which ui.perfetto.dev and chrome://tracing open.

An instance is a process. Its threads are slots: chunks are packed onto them without overlap. A
slice is a chunk, named by its request; arrows join the chunks of a request (`bind_id`, the second
version of flow events). Counters: running requests and KV tokens. Instant events: finished requests
and lost instances. Format: "Trace Event Format", Google, 2016.
"""

from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import numpy as np

from seer.report.chunk_table import Fate
from seer.report.instance_log import InstanceLine
from seer.report.lanes import pack_lanes
from seer.report.series import FloatArray
from seer.report.timeline import Timeline

MAX_COUNTER_POINTS = 5000
"""Points of a counter of one instance."""

TraceEvent = dict[str, object]


def write_perfetto(timeline: Timeline, file: BinaryIO) -> int:
    """Write the JSON; returns the number of events."""
    encoder = msgspec.json.Encoder()
    file.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
    count = 0
    for count, event in enumerate(perfetto_events(timeline), start=1):
        file.write((b",\n" if count > 1 else b"") + encoder.encode(event))
    file.write(b"\n]}\n")
    return count


def perfetto_events(timeline: Timeline) -> Iterator[TraceEvent]:
    """All events; processes and slots are named first."""
    chunks = timeline.chunks
    lanes = pack_lanes(chunks, range(len(chunks)))
    slots = _slots(timeline, lanes.tolist())
    for line in timeline.instances:
        yield _named("process_name", f"instance {line.instance_id}", _pid(line.instance_id), 0)
    for (instance_id, lane), tid in slots.items():
        yield _named("thread_name", f"slot {lane:03d}", _pid(instance_id), tid)
    yield from _slices(timeline, lanes.tolist(), slots)
    for line in timeline.instances:
        yield from _counters(line, timeline.end_s)
    for t, instance_id in timeline.losses:
        pid = _pid(instance_id)
        yield {"ph": "i", "name": "instance lost", "ts": _us(t), "pid": pid, "tid": 0, "s": "p"}


def _slots(timeline: Timeline, lanes: list[int]) -> dict[tuple[int, int], int]:
    """(instance, lane) to a thread id: unique over all instances, as Perfetto wants names."""
    places = sorted(set(zip(timeline.chunks.instance.tolist(), lanes, strict=True)))
    first = max((line.instance_id for line in timeline.instances), default=0) + 2
    return {place: first + number for number, place in enumerate(places)}


def _slices(
    timeline: Timeline, lanes: list[int], slots: dict[tuple[int, int], int]
) -> Iterator[TraceEvent]:
    chunks, requests = timeline.chunks, timeline.requests
    left = np.bincount(chunks.request, minlength=len(requests))
    total = left.copy()
    for i, lane in enumerate(lanes):
        request, instance_id = int(chunks.request[i]), int(chunks.instance[i])
        start, end = _us(float(chunks.start_s[i])), _us(float(chunks.end_s[i]))
        place = {"pid": _pid(instance_id), "tid": slots[instance_id, lane]}
        name = str(requests.id_of(request))
        index = int(total[request] - left[request])
        left[request] -= 1
        args = {
            "chunk": index,
            "tokens": int(chunks.num_tokens[i]),
            "kv_loaded": bool(chunks.is_loaded[i]),
            "end": Fate(int(chunks.fate[i])).name.lower(),
        }
        duration = round(end - start, 3)
        yield (
            {"ph": "X", "cat": "chunk", "name": name, "ts": start, "dur": duration}
            | place
            | (_flow(request, has_earlier=index > 0, has_later=bool(left[request])))
            | {"args": args}
        )
        if chunks.is_last[i]:
            yield {"ph": "i", "name": f"finished {name}", "ts": end, "s": "t"} | place


def _flow(request: int, *, has_earlier: bool, has_later: bool) -> TraceEvent:
    """One flow a request, through all its chunks."""
    if not has_earlier and not has_later:
        return {}
    flow: TraceEvent = {"bind_id": f"0x{request + 1:x}"}
    if has_earlier:
        flow["flow_in"] = True
    if has_later:
        flow["flow_out"] = True
    return flow


def _counters(line: InstanceLine, end_s: float) -> Iterator[TraceEvent]:
    times, values = line.running.times, line.running.values
    if len(times) > MAX_COUNTER_POINTS:
        times, values = _thinned(line, end_s, is_kv=False)
    yield from _counter("running", "requests", line.instance_id, times, values)
    times, values = line.kv.times, line.kv.values
    if len(times) > MAX_COUNTER_POINTS:
        times, values = _thinned(line, end_s, is_kv=True)
    yield from _counter("KV", "tokens", line.instance_id, times, values)


def _thinned(line: InstanceLine, end_s: float, *, is_kv: bool) -> tuple[FloatArray, FloatArray]:
    edges = np.linspace(0.0, end_s, MAX_COUNTER_POINTS + 1)
    series = line.kv if is_kv else line.running
    return edges[:-1], series.on_grid(edges)


def _counter(
    name: str, unit: str, instance_id: int, times: FloatArray, values: FloatArray
) -> Iterator[TraceEvent]:
    pid = _pid(instance_id)
    for t, value in zip(times.tolist(), values.tolist(), strict=True):
        args = {unit: round(value)}
        yield {"ph": "C", "name": name, "ts": _us(t), "pid": pid, "tid": pid, "args": args}


def _named(kind: str, name: str, pid: int, tid: int) -> TraceEvent:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _pid(instance_id: int) -> int:
    """Process ids start at 1: Perfetto takes 0 for the idle process."""
    return instance_id + 1


def _us(seconds: float) -> float:
    """Microseconds, exact to the nanosecond, so that neighbours do not overlap by rounding."""
    return round(seconds * 1e6, 3)
