"""What the controller does when something fails or is cancelled."""

from seer.rollout.events import AbortChunk, FinishGroup
from seer.types import ChunkEnd, ChunkStats, FinishReason, KVKey
from support.told import (
    OWN_10,
    PROMPT_1,
    R00,
    R01,
    R10,
    Told,
    crowded,
    displaced,
    drop,
    finish,
    places,
    start,
)

# ---------------------------------------------------------------- faults


def test_a_lost_instances_requests_go_on_after_the_streamed_tokens() -> None:
    """Without instances they wait."""
    told = Told()
    told.submit(1, max_tokens=10)
    told.stream(R00, 2)
    told.stream(R00, 1)
    assert told.lose(0) == []
    assert told.join(1) == [start(R00, 1, 1, max_tokens=1)]
    assert told.end(R00, 1, instance_id=1, num_tokens=1) == [start(R00, 1, 2)]


def test_the_old_instances_late_report_is_ignored() -> None:
    """The chunk has a new number."""
    told = Told(num_instances=2)
    told.submit(1)
    assert told.lose(0) == [start(R00, 1, 1)]
    assert told.end(R00, 0) == []


def test_a_request_whose_last_token_was_streamed_ends_with_the_instance() -> None:
    """At its limit there is nothing left to generate."""
    told = Told()
    told.submit(1, max_tokens=3)
    told.stream(R00, 3)
    assert told.lose(0) == [finish(R00, FinishReason.LENGTH), FinishGroup(group_id=0)]


def test_a_restart_under_the_same_id_counts_as_a_loss() -> None:
    """Even if the loss was not reported."""
    told = Told()
    told.submit(1)
    assert told.join(0) == [start(R00, chunk_index=1)]


def test_kv_at_rest_is_lost_with_its_instance() -> None:
    """Its request goes on elsewhere, without it."""
    told = crowded(num_host_slots=0)
    told.end(R10)
    told.lose(0)
    assert places(told.join(0)) == [(R00, 0), (R01, 0)]
    assert told.join(1) == [start(R10, 1, 1)]


def test_pool_entries_survive_an_instance() -> None:
    """And are used for the prefix that they cover."""
    told = displaced()
    told.join(1)
    told.stream(R10, 2, chunk_index=1)
    assert told.lose(1) == []
    assert told.join(2) == [start(R10, 2, 2, max_tokens=2, loads=(PROMPT_1, OWN_10))]


def test_an_export_that_failed_is_not_loaded() -> None:
    """The next chunk computes the KV again."""
    assert displaced(is_ok=False).join(1) == [start(R10, 1, 1)]


def test_exports_of_a_lost_instance_have_failed() -> None:
    """Nobody will report them."""
    told = crowded(num_host_slots=10)
    told.end(R10)
    told.end(R00)
    assert told.in_pool(KVKey(1, 0))
    told.lose(0)
    assert not told.in_pool(KVKey(1, 0))


def test_a_prompt_that_may_be_corrupt_is_not_loaded_again() -> None:
    """A load failure does not name the entry, so the shared one goes."""
    told = displaced()
    told.join(1)
    told.end(R10, 1, instance_id=1, stats=ChunkStats(num_load_failures=1))
    assert not told.in_pool(KVKey(1))


def test_a_chunk_cut_before_its_first_token_keeps_its_pool_entry() -> None:
    """The instance may not have read it; what it has is dropped."""
    told = displaced()
    told.join(1)
    assert told.end(R10, 1, 0, ChunkEnd.ABORTED, instance_id=1) == [
        drop(1, 0, instance_id=1),
        start(R10, 1, 2, loads=(OWN_10,)),
    ]


# ---------------------------------------------------------------- cancelling


def test_cancelling_ends_waiting_requests_at_once_and_cuts_running_ones() -> None:
    """The group ends when the last one is back."""
    told = Told(max_running=1)
    told.submit(2)
    assert told.cancel(0) == [
        AbortChunk(instance_id=0, request_id=R00),
        finish(R01, FinishReason.CANCELLED),
    ]
    assert told.cancel(0) == []
    assert told.end(R00, 0, 1, ChunkEnd.ABORTED) == [
        drop(0, 0),
        finish(R00, FinishReason.CANCELLED),
        drop(0),
        FinishGroup(group_id=0),
    ]


def test_kv_at_rest_of_a_cancelled_request_is_dropped() -> None:
    """And its place goes to others."""
    told = Told(max_running=1)
    told.submit(1)
    told.submit(1, first=1)
    assert told.cancel(0) == [AbortChunk(instance_id=0, request_id=R00)]
    actions = told.end(R00)
    assert actions[0] == drop(0, 0)
    assert places(actions) == [(R10, 0)]


def test_a_request_that_ended_before_the_abort_reached_it_is_complete() -> None:
    """Its reason is its own."""
    told = Told()
    told.submit(1)
    told.cancel(0)
    assert told.end(R00, 0, 2, ChunkEnd.STOP)[0] == finish(R00)


def test_cancelling_clears_the_pool() -> None:
    """Of waiting requests at once, of a lost one when it ends."""
    waiting = displaced()
    waiting.cancel(1)
    assert not waiting.in_pool(KVKey(1, 0))
    assert not waiting.in_pool(KVKey(1))
    lost = displaced()
    lost.join(1)
    lost.cancel(1)
    assert lost.in_pool(KVKey(1, 0))
    lost.lose(1)
    assert not lost.in_pool(KVKey(1, 0))
    assert not lost.in_pool(KVKey(1))


def test_a_cancelled_request_is_not_started_again_after_a_loss() -> None:
    """It ends with what was streamed."""
    told = Told(num_instances=2)
    told.submit(1)
    told.stream(R00, 1)
    told.cancel(0)
    assert told.lose(0) == [finish(R00, FinishReason.CANCELLED), FinishGroup(group_id=0)]
