"""Decisions of the controller, one behaviour at a time; random orders are in tests/property."""

import pytest

from seer.errors import InvalidInput
from seer.rollout.events import FinishGroup, GroupsSubmitted, KVExported, Tick
from seer.types import ChunkEnd, FinishReason, GroupSpec, KVKey, RequestId
from support.model_instance import make_info
from support.told import R00, R01, R10, R20, Told, drop, finish, places, start

# ---------------------------------------------------------------- the life of a request


def test_a_request_runs_chunk_by_chunk_and_ends_at_its_limit() -> None:
    """KV stays between chunks, not after what may be the last one."""
    told = Told()
    assert told.submit(1, max_tokens=10) == [start(R00)]
    assert told.end(R00) == [start(R00, chunk_index=1)]
    assert told.end(R00, 1) == [start(R00, chunk_index=2, max_tokens=2, keep_kv=False)]
    assert told.end(R00, 2, 2) == [
        finish(R00, FinishReason.LENGTH),
        drop(0),
        FinishGroup(group_id=0),
    ]


def test_a_request_that_stops_leaves_its_group_waiting_for_the_others() -> None:
    """The engine frees the KV of what stops; the prompt goes with the last member."""
    told = Told(max_running=1)
    told.submit(2)
    assert told.end(R00, 0, 2, ChunkEnd.STOP) == [finish(R00), start(R01)]
    assert told.end(R01, 0, 1, ChunkEnd.STOP) == [finish(R01), drop(0), FinishGroup(group_id=0)]


def test_chunks_that_end_together_are_placed_after_the_last() -> None:
    """Nothing starts behind a report that announces another, not even if that one is late."""
    told = Told()
    told.submit(2)
    assert told.end(R01, more=True) == []
    assert told.end(R00) == [start(R00, chunk_index=1), start(R01, chunk_index=1)]
    assert told.end(R00, 1, more=True) == []
    late = told.end(R00, 1)
    assert late == [start(R00, chunk_index=2, keep_kv=False)]


def test_without_a_chunk_size_a_request_runs_in_one_chunk() -> None:
    """Divided over instances, not in time."""
    told = Told(chunk_size=None)
    assert told.submit(1) == [start(R00, max_tokens=12, keep_kv=False)]


def test_groups_wait_for_the_first_instance() -> None:
    """And the second one takes what the first has no room for."""
    told = Told(num_instances=0, max_running=1)
    assert told.submit(2) == []
    assert told.join(0) == [start(R00)]
    assert told.join(1) == [start(R01, instance_id=1)]


def test_ticks_and_unknown_names_change_nothing() -> None:
    """Late reports about what is gone."""
    told = Told()
    told.submit(1)
    assert told.controller.handle(Tick(), 1.0) == []
    assert told.end(R10) == []
    assert told.end(R00, chunk_index=1) == []
    assert told.stream(R00, 3, chunk_index=1) == []
    assert told.cancel(5) == []
    assert told.lose(5) == []
    export = KVExported(instance_id=0, key=KVKey(0), ok=True, num_bytes=1)
    assert told.controller.handle(export, 1.0) == []


# ---------------------------------------------------------------- admission


def test_the_head_waits_for_room_and_nobody_overtakes_it() -> None:
    """Although the one behind it would fit."""
    told = Told(num_blocks=7)
    first = told.submit(2, 1, max_tokens=4)  # prompts of 2 blocks, 1 own block a request
    assert places(first) == [(R00, 0), (R01, 0), (R10, 0)]
    assert told.submit(1, first=2, prompt=13, max_tokens=4) == []  # 3 + 1 blocks
    assert told.submit(1, first=3, prompt=1, max_tokens=1) == []  # 1 block
    assert places(told.end(R10)) == []  # 3 blocks are free
    assert places(told.end(R01)) == [(R20, 0)]


def test_an_instance_takes_no_more_requests_than_it_runs() -> None:
    """Its concurrency cap."""
    told = Told(max_running=2)
    assert places(told.submit(3)) == [(R00, 0), (R01, 0)]


# ---------------------------------------------------------------- static policies


def test_group_round_robin_starts_whole_requests_at_once() -> None:
    """Beyond any capacity: the engine queues them."""
    told = Told(policy="group_round_robin", num_instances=2, num_blocks=6, max_running=1)
    actions = told.submit(2, 2)
    assert places(actions) == [(R00, 0), (R01, 0), (R10, 1), (RequestId(1, 1), 1)]
    assert actions[0] == start(R00, max_tokens=12, keep_kv=False)


def test_prompts_are_dropped_where_members_ran() -> None:
    """When their group is finished."""
    told = Told(policy="interleaved", num_instances=2)
    told.submit(2)
    told.end(R00, 0, 12)
    assert told.end(R01, 0, 3, ChunkEnd.STOP, instance_id=1) == [
        finish(R01),
        drop(0),
        drop(0, instance_id=1),
        FinishGroup(group_id=0),
    ]


def test_requests_of_a_lost_instance_are_dealt_over_the_others() -> None:
    """They go on after the tokens that were streamed."""
    told = Told(policy="interleaved", num_instances=3)
    told.submit(4)
    told.stream(R00, 5)
    actions = told.lose(0)
    assert places(actions) == [(R00, 1), (RequestId(0, 3), 2)]
    assert actions[0] == start(R00, 1, 1, max_tokens=7, keep_kv=False)


# ---------------------------------------------------------------- bad input


def test_a_group_that_can_never_fit_is_refused_and_nothing_changes() -> None:
    """Neither are the good ones of the same submission taken."""
    told = Told(num_blocks=6)
    with pytest.raises(InvalidInput, match="kv_tokens"):
        told.submit(1, 1, max_tokens=100)
    assert places(told.submit(1)) == [(R00, 0)]


def test_an_instance_that_a_waiting_group_can_never_fit_is_refused() -> None:
    """Every request must fit on every instance, whichever comes first."""
    told = Told(num_instances=0)
    told.submit(1, max_tokens=100)
    with pytest.raises(InvalidInput, match="kv_tokens"):
        told.join(0, make_info(6))
    assert places(told.join(1, make_info(100))) == [(R00, 1)]


def test_instances_must_have_blocks_of_one_size() -> None:
    """Their KV would not fit each other."""
    with pytest.raises(InvalidInput, match="block_size: got 8; allowed: 4"):
        Told().join(1, make_info(100, block_size=8))


def test_a_group_id_in_use_is_refused() -> None:
    """Also within one submission."""
    told = Told()
    told.submit(1)
    with pytest.raises(InvalidInput, match="group_id: got 0"):
        told.submit(1)


def test_the_oracle_is_refused_without_lengths() -> None:
    """One for each member, none beyond the limit."""
    told = Told(policy="oracle")
    with pytest.raises(InvalidInput, match=r"known_lengths: got .*the oracle policy needs them"):
        told.submit(1)
    spec = GroupSpec(
        group_id=0, group_size=1, num_prompt_tokens=9, max_tokens=12, known_lengths=(13,)
    )
    with pytest.raises(InvalidInput, match=r"from 1 to max_tokens \(12\)"):
        told.controller.handle(GroupsSubmitted(groups=(spec,)), 0.0)


# ---------------------------------------------------------------- passing over


def test_the_published_policies_wait_for_a_head_that_fits_nowhere() -> None:
    """The second request would fit; it does not overtake."""
    told = Told(policy="divided", num_blocks=9, chunk_size=12)
    assert places(told.submit(1, prompt=5, max_tokens=12)) == [(R00, 0)]
    assert told.submit(1, first=1, prompt=13, max_tokens=12) == []
    assert told.submit(1, first=2, prompt=5, max_tokens=4) == []


def test_seer_passes_over_a_head_that_fits_nowhere() -> None:
    """The memory that is left serves the next one; the head still waits."""
    told = Told(policy="seer", num_blocks=9, chunk_size=12)
    assert places(told.submit(1, prompt=5, max_tokens=12)) == [(R00, 0)]
    assert told.submit(1, first=1, prompt=13, max_tokens=12) == []
    assert places(told.submit(1, first=2, prompt=5, max_tokens=4)) == [(R20, 0)]
    assert places(told.end(R00, 0, 5, ChunkEnd.STOP)) == [(R10, 0)]
