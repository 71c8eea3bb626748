import pytest

from seer.rollout.events import (
    Action,
    ChunkFinished,
    Event,
    FinishGroup,
    FinishRequest,
    GroupsSubmitted,
    InstanceLeft,
    KVExported,
    KVSpilled,
    StartChunk,
    Tick,
    TokensStreamed,
)
from seer.rollout.metrics import MetricsBuilder, RolloutMetrics, metrics_of
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

LOAD = InstanceLoad(free_kv_tokens=0, num_running=0, num_waiting=0)


def _record(t: float, event: Event, *actions: Action) -> TraceRecord:
    return TraceRecord(t=t, event=event, actions=list(actions))


def _submit(t: float, group: int, size: int, *, starts: bool = True) -> TraceRecord:
    spec = GroupSpec(group_id=group, group_size=size, num_prompt_tokens=9, max_tokens=100)
    members = [RequestId(group, member) for member in range(size)]
    actions = [_start(member) for member in members] if starts else []
    return _record(t, GroupsSubmitted(groups=(spec,)), *actions)


def _start(request_id: RequestId, chunk_index: int = 0, instance_id: int = 0) -> StartChunk:
    return StartChunk(
        instance_id=instance_id,
        request_id=request_id,
        chunk_index=chunk_index,
        max_tokens=100,
        keep_kv=True,
    )


def _ended(
    request_id: RequestId,
    num_tokens: int,
    *,
    chunk_index: int = 0,
    stats: ChunkStats | None = None,
    instance_id: int = 0,
) -> ChunkFinished:
    return ChunkFinished(
        request_id=request_id,
        chunk_index=chunk_index,
        instance_id=instance_id,
        num_tokens=num_tokens,
        end=ChunkEnd.STOP,
        stats=stats or ChunkStats(),
        load=LOAD,
    )


def _finish(group: int, member: int, *, is_last: bool = False) -> list[Action]:
    actions: list[Action] = [
        FinishRequest(request_id=RequestId(group, member), reason=FinishReason.STOP)
    ]
    return [*actions, FinishGroup(group_id=group)] if is_last else actions


def _one_chunk(stats: ChunkStats) -> RolloutMetrics:
    return metrics_of(
        [
            _submit(0.0, 0, 1),
            _record(2.0, _ended(RequestId(0, 0), 10, stats=stats), *_finish(0, 0, is_last=True)),
        ]
    )


def test_an_empty_trace_has_metrics() -> None:
    """All zero."""
    metrics = metrics_of([])
    assert metrics.throughput_tokens_per_s == 0.0
    assert metrics.total_time_s == 0.0


def test_throughput_is_output_tokens_over_the_time_of_the_rollout() -> None:
    """What comes before the first submission does not count."""
    metrics = metrics_of(
        [
            _record(5.0, Tick()),
            _submit(10.0, 0, 1),
            _record(14.0, _ended(RequestId(0, 0), 100), *_finish(0, 0, is_last=True)),
            _record(99.0, Tick()),
        ]
    )
    assert metrics.total_time_s == pytest.approx(4.0)
    assert metrics.output_tokens == 100
    assert metrics.throughput_tokens_per_s == pytest.approx(25.0)
    assert (metrics.num_requests, metrics.num_groups, metrics.num_chunks) == (1, 1, 1)


def test_the_tail_is_the_time_of_the_last_tenth_of_the_requests() -> None:
    """From the 9th to the 10th of ten."""
    records = [_submit(0.0, 0, 10)]
    for member in range(10):
        end = _ended(RequestId(0, member), 1)
        records.append(_record(1.0 + member, end, *_finish(0, member, is_last=member == 9)))
    records[-1] = TraceRecord(t=30.0, event=records[-1].event, actions=records[-1].actions)
    assert metrics_of(records).tail_time_s == pytest.approx(30.0 - 9.0)


def test_times_count_rounds_only() -> None:
    """A pause between two rollouts of a session is nobody's time."""
    records = []
    for number, t in enumerate((0.0, 100.0)):
        records += [
            _submit(t, number, 1),
            _record(t + 3.0, _ended(RequestId(number, 0), 30), *_finish(number, 0, is_last=True)),
        ]
    metrics = metrics_of(records)
    assert metrics.total_time_s == pytest.approx(6.0)
    assert metrics.throughput_tokens_per_s == pytest.approx(10.0)


def test_mean_running_weighs_chunks_in_flight_by_time() -> None:
    """Two for one second, one for three."""
    metrics = metrics_of(
        [
            _submit(0.0, 0, 2),
            _record(1.0, _ended(RequestId(0, 0), 1), *_finish(0, 0)),
            _record(4.0, _ended(RequestId(0, 1), 1), *_finish(0, 1, is_last=True)),
        ]
    )
    assert metrics.mean_running == pytest.approx(5 / 4)


def test_costs_are_those_that_chunks_report() -> None:
    """Preemptions, recomputed output, loads."""
    metrics = _one_chunk(
        ChunkStats(
            num_prompt_prefilled=8,
            num_output_prefilled=7,
            num_preemptions=2,
            num_loaded_tokens=5,
            num_loaded_bytes=50,
            num_load_failures=1,
        )
    )
    assert metrics.preemptions == 2
    assert metrics.prompt_prefilled_tokens == 8
    assert metrics.reprefilled_tokens == 7
    assert metrics.kv_bytes_moved == 50
    assert metrics.load_failures == 1


def test_a_prompt_computed_more_than_once_on_an_instance_is_reprefill() -> None:
    """8 positions once: 20 are 12 too many. Another instance computes it for itself."""
    assert _one_chunk(ChunkStats(num_prompt_prefilled=20)).reprefilled_tokens == 12
    first = _ended(RequestId(0, 0), 1, stats=ChunkStats(num_prompt_prefilled=8))
    other = _ended(RequestId(0, 1), 1, stats=ChunkStats(num_prompt_prefilled=8), instance_id=1)
    again = _ended(RequestId(0, 2), 1, stats=ChunkStats(num_prompt_prefilled=8))
    metrics = metrics_of(
        [
            _submit(0.0, 0, 3),
            _record(1.0, first, *_finish(0, 0)),
            _record(2.0, other, *_finish(0, 1)),
            _record(3.0, again, *_finish(0, 2, is_last=True)),
        ]
    )
    assert metrics.prompt_prefilled_tokens == 24
    assert metrics.reprefilled_tokens == 8


def test_exports_and_spills_are_bytes_moved() -> None:
    """Beside loads."""
    metrics = metrics_of(
        [
            _record(0.0, KVExported(instance_id=0, key=KVKey(0), ok=True, num_bytes=100)),
            _record(1.0, KVSpilled(key=KVKey(0), ok=True, num_bytes=20)),
        ]
    )
    assert metrics.kv_bytes_moved == 120


def test_streamed_tokens_of_a_lost_chunk_are_output() -> None:
    """Late reports of it are not."""
    request_id = RequestId(0, 0)
    streamed = TokensStreamed(request_id=request_id, chunk_index=0, num_tokens=4)
    metrics = metrics_of(
        [
            _submit(0.0, 0, 1),
            _record(1.0, streamed),
            _record(2.0, InstanceLeft(instance_id=0), _start(request_id, 1, instance_id=1)),
            _record(3.0, streamed),
            _record(3.0, _ended(request_id, 9)),
            _record(4.0, _ended(request_id, 6, chunk_index=1), *_finish(0, 0, is_last=True)),
        ]
    )
    assert metrics.output_tokens == 10
    assert metrics.instances_lost == 1
    assert metrics.num_chunks == 1


def test_metrics_can_be_asked_for_at_any_time() -> None:
    """Of the records so far."""
    builder = MetricsBuilder()
    builder.add(_submit(0.0, 0, 2))
    builder.add(_record(2.0, _ended(RequestId(0, 0), 8), *_finish(0, 0)))
    assert builder.result().throughput_tokens_per_s == pytest.approx(4.0)
    assert builder.result().num_chunks == 1


def test_acceptance_length_is_tokens_a_step_of_chunks_that_counted_them() -> None:
    """Drafted and accepted tokens add up; chunks of engines that count no steps say nothing."""
    drafted = ChunkStats(num_decode_steps=4, num_drafted=12, num_accepted=6)
    plain = ChunkStats(num_decode_steps=2)
    metrics = metrics_of(
        [
            _submit(0, 0, 3),
            _record(1, _ended(RequestId(0, 0), 10, stats=drafted), *_finish(0, 0)),
            _record(2, _ended(RequestId(0, 1), 2, stats=plain), *_finish(0, 1)),
            _record(3, _ended(RequestId(0, 2), 50), *_finish(0, 2, is_last=True)),
        ]
    )
    assert (metrics.drafted_tokens, metrics.accepted_tokens) == (12, 6)
    assert metrics.acceptance_length == 2
    assert _one_chunk(ChunkStats()).acceptance_length == 0
