from collections.abc import Callable

import numpy as np
import pytest

from seer.report.chunk_table import Fate
from seer.report.timeline import Timeline
from seer.rollout.events import (
    Action,
    ChunkFinished,
    DropObject,
    Event,
    FinishGroup,
    FinishRequest,
    GroupsSubmitted,
    InstanceJoined,
    InstanceLeft,
    LoadReported,
    StartChunk,
    TokensStreamed,
)
from seer.rollout.trace import TraceRecord
from seer.types import (
    ChunkEnd,
    ChunkStats,
    FinishReason,
    GroupSpec,
    InstanceLoad,
    KVKey,
    RequestId,
)
from support.model_instance import make_info
from support.scenario import Faults, Outcome

R00, R01, R02 = (RequestId(0, member) for member in range(3))
INFO = make_info(10)  # 40 tokens


def at(t: float, event: Event, *actions: Action) -> TraceRecord:
    return TraceRecord(t=t, event=event, actions=list(actions))


def start(request_id: RequestId, chunk_index: int = 0, *, instance_id: int = 0) -> StartChunk:
    return StartChunk(
        instance_id=instance_id,
        request_id=request_id,
        chunk_index=chunk_index,
        max_tokens=8,
        keep_kv=True,
    )


def end(
    request_id: RequestId,
    num_tokens: int,
    chunk_index: int = 0,
    *,
    waiting: int = 0,
    free: int = 0,
    end: ChunkEnd = ChunkEnd.LENGTH,
) -> ChunkFinished:
    return ChunkFinished(
        request_id=request_id,
        chunk_index=chunk_index,
        instance_id=0,
        num_tokens=num_tokens,
        end=end,
        stats=ChunkStats(num_loaded_tokens=chunk_index),
        load=InstanceLoad(free_kv_tokens=free, num_running=1, num_waiting=waiting),
    )


def begin(t: float, size: int, *requests: RequestId) -> list[TraceRecord]:
    """An instance that joined at 0; at `t` a group whose prompt has 10 tokens."""
    spec = GroupSpec(group_id=0, group_size=size, num_prompt_tokens=10, max_tokens=20)
    submit = at(t, GroupsSubmitted(groups=(spec,)), *(start(each) for each in requests))
    return [at(0.0, InstanceJoined(instance_id=0, info=INFO)), submit]


def finish(request_id: RequestId) -> FinishRequest:
    return FinishRequest(request_id=request_id, reason=FinishReason.STOP)


TimelineOf = Callable[..., Timeline]


@pytest.mark.parametrize("policy", ["divided", "context_aware", "interleaved"])
@pytest.mark.parametrize("seed", range(4))
def test_lengths_and_rounds_are_those_of_the_rollout(
    outcome: Callable[..., Outcome], timeline: TimelineOf, policy: str, seed: int
) -> None:
    """Losses, cancellations and late reports included; the tails are the metrics' tail."""
    done = outcome(policy, seed)
    made = timeline(done.records, policy)
    requests, chunks = made.requests, made.chunks
    generated = {requests.id_of(row): int(n) for row, n in enumerate(requests.num_tokens)}
    assert {k: n for k, n in generated.items() if n} == {
        k: n for k, n in done.num_generated.items() if n
    }
    summed = np.bincount(chunks.request, weights=chunks.num_tokens, minlength=len(requests))
    assert summed.tolist() == requests.num_tokens.tolist()
    assert np.isfinite(requests.finish_s).all()
    tails = sum(each.end_s - each.tail_s for each in made.rounds if each.tail_s is not None)
    assert tails == pytest.approx(made.metrics.tail_time_s)
    assert made.end_s == made.rounds[-1].end_s


@pytest.mark.parametrize("seed", range(4))
def test_what_runs_and_is_held_under_a_divided_policy(
    outcome: Callable[..., Outcome], timeline: TimelineOf, seed: int
) -> None:
    """The mean agrees with the metrics; KV fits the instance and is all gone in the end."""
    made = timeline(outcome("divided", seed).records)
    assert made.mean_running == pytest.approx(made.metrics.mean_running)
    for line in made.instances:
        assert line.kv.values.max() <= line.kv_capacity_tokens
        assert line.kv.values[-1] == pytest.approx(0.0, abs=1e-6)
        assert line.running.values[-1] == 0


def test_times_count_from_the_submission(timeline: TimelineOf) -> None:
    """Loading the instance before does not count."""
    made = timeline(
        [*begin(5.0, 1, R00), at(7.0, end(R00, 4, end=ChunkEnd.STOP), finish(R00), _last())]
    )
    assert (made.chunks.start_s.tolist(), made.chunks.end_s.tolist()) == ([0.0], [2.0])
    assert made.requests.finish_s.tolist() == [2.0]
    assert made.instances[0].running.times.tolist() == [0.0, 0.0, 2.0]


def test_kv_grows_within_a_chunk_and_counts_the_prompt_once(timeline: TimelineOf) -> None:
    """10 prompt tokens, then two members that make 8 and 4 tokens in 4 s; one rests, one is done.

    The one that rests is dropped 2 s later, and the prompt with its group.
    """
    made = timeline(
        [
            *begin(0.0, 2, R00, R01),
            at(4.0, end(R00, 8)),
            at(4.0, end(R01, 4, end=ChunkEnd.STOP), finish(R01)),
            at(6.0, LoadReported(instance_id=0, load=end(R00, 0).load), _drop(0)),
            at(7.0, InstanceLeft(instance_id=0)),
        ]
    )
    kv = made.instances[0].kv.on_grid(np.array([0.0, 2.0, 4.0, 6.0, 7.0, 8.0]))
    assert kv == pytest.approx([13.0, 19.0, 18.0, 10.0, 0.0])


def test_static_instances_tell_themselves_what_runs(timeline: TimelineOf) -> None:
    """Three given; when the first ends one waits: two ran before, and one does now."""
    made = timeline(
        [
            *begin(0.0, 3, R00, R01, R02),
            at(2.0, end(R00, 5, waiting=1, free=30, end=ChunkEnd.STOP), finish(R00)),
            at(4.0, end(R01, 5, waiting=0, free=20, end=ChunkEnd.STOP), finish(R01)),
        ],
        "interleaved",
    )
    line = made.instances[0]
    assert line.running.on_grid(np.array([0.0, 2.0, 4.0])).tolist() == [2.0, 1.0]
    assert line.kv.times.tolist() == [0.0, 2.0, 4.0]
    assert line.kv.values.tolist() == [0.0, 10.0, 20.0]


def test_a_lost_chunk_keeps_what_was_reported(timeline: TimelineOf) -> None:
    """And its request goes on with the next."""
    made = timeline(
        [
            *begin(0.0, 1, R00),
            at(1.0, TokensStreamed(request_id=R00, chunk_index=0, num_tokens=3)),
            at(2.0, InstanceLeft(instance_id=0)),
            at(3.0, InstanceJoined(instance_id=0, info=INFO), start(R00, 1)),
            at(4.0, end(R00, 9)),  # of the lost chunk: too late
            at(5.0, end(R00, 2, 1, end=ChunkEnd.STOP), finish(R00), _last()),
        ]
    )
    assert made.chunks.fate.tolist() == [Fate.LOST, Fate.ENDED]
    assert made.chunks.num_tokens.tolist() == [3, 2]
    assert made.chunks.is_loaded.tolist() == [False, True]
    assert made.chunks.is_last.tolist() == [False, True]
    assert made.losses == ((2.0, 0),)


def test_a_trace_that_was_cut_short(outcome: Callable[..., Outcome], timeline: TimelineOf) -> None:
    """Chunks in flight are open, unfinished requests have no length."""
    records = outcome("divided", 1, Faults()).records
    made = timeline(records[: len(records) // 2])
    assert (made.chunks.fate == Fate.OPEN).any()
    assert not made.requests.has_length.all()
    assert made.rounds[-1].tail_s is None
    assert made.end_s == made.rounds[-1].end_s > 0


def _last() -> FinishGroup:
    return FinishGroup(group_id=0)


def _drop(member: int) -> DropObject:
    return DropObject(instance_id=0, key=KVKey(0, member))
