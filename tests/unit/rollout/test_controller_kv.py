"""What the controller does with KV: eviction, pool, placement, pulls."""

from seer.rollout.events import ExportObject, KVSpilled, SpillObject, StartChunk
from seer.scheduling.placement import PlacementConfig
from seer.types import ChunkEnd, KVKey, PoolEntry, Tier
from support.told import (
    OWN_10,
    PROMPT_1,
    PULLING,
    R00,
    R01,
    R10,
    Told,
    crowded,
    displaced,
    drop,
    places,
    start,
)


def test_without_a_pool_idle_kv_is_dropped() -> None:
    """And computed again, later. Requests go before prompts without members."""
    told = crowded(num_host_slots=0)
    assert told.end(R10) == []
    assert told.end(R00) == [drop(1, 0), start(R00, chunk_index=1)]
    assert told.end(R01) == [drop(1), start(R01, chunk_index=1)]
    assert told.join(1) == [start(R10, 1, 1)]


def test_with_a_pool_idle_kv_is_exported_first() -> None:
    """The prompt too, once no member is left on the instance."""
    told = crowded(num_host_slots=10)
    assert told.end(R10) == []
    assert told.end(R00) == [
        ExportObject(instance_id=0, key=KVKey(1, 0), slots=(0,)),
        drop(1, 0),
        start(R00, chunk_index=1),
    ]
    assert told.end(R01) == [
        ExportObject(instance_id=0, key=KVKey(1), slots=(1, 2)),
        drop(1),
        start(R01, chunk_index=1),
    ]


def test_exported_kv_is_loaded_by_the_next_chunk() -> None:
    """Wherever it runs; the request's own entry is let go when that chunk ends."""
    told = displaced()
    assert told.join(1) == [start(R10, 1, 1, loads=(PROMPT_1, OWN_10))]
    told.end(R10, 1, instance_id=1)
    assert told.in_pool(KVKey(1))
    assert not told.in_pool(KVKey(1, 0))


def test_a_full_host_tier_spills_to_disk() -> None:
    """The oldest entry first, before its slots are written again."""
    told = crowded(num_host_slots=2, num_disk_slots=10)
    told.end(R10)
    told.end(R00)
    told.exported(KVKey(1, 0))
    assert told.end(R01)[:3] == [
        SpillObject(key=KVKey(1, 0), host_slots=(0,), disk_slots=(0,)),
        ExportObject(instance_id=0, key=KVKey(1), slots=(0, 1)),
        drop(1),
    ]
    told.controller.handle(KVSpilled(key=KVKey(1, 0), ok=True, num_bytes=1), 0.0)
    (start,) = told.join(1)
    assert isinstance(start, StartChunk)
    assert [entry.tier for entry in start.loads] == [Tier.HOST, Tier.DISK]


def test_a_spill_that_failed_is_not_loaded() -> None:
    """What is left is the prompt."""
    told = crowded(num_host_slots=2, num_disk_slots=10)
    told.end(R10)
    told.end(R00)
    told.exported(KVKey(1, 0))
    told.end(R01)
    told.controller.handle(KVSpilled(key=KVKey(1, 0), ok=False, num_bytes=0), 0.0)
    (start,) = told.join(1)
    assert isinstance(start, StartChunk)
    assert [entry.key for entry in start.loads] == [KVKey(1)]


def test_kv_is_dropped_when_the_pool_is_busy() -> None:
    """Slots that are being written are not taken."""
    told = crowded(num_host_slots=2)
    told.end(R10)
    told.end(R00)
    assert told.end(R01) == [drop(1), start(R01, chunk_index=1)]


# ---------------------------------------------------------------- placement and pulls


def test_kv_is_pulled_from_the_holder_when_load_decides() -> None:
    """Export and drop there; load here. The prompt is at both already."""
    told = Told(num_instances=2, placement=PULLING, num_host_slots=10)
    assert places(told.submit(2, 1)) == [(R00, 0), (R01, 1), (R10, 0)]
    told.end(R01, 0, 1, ChunkEnd.STOP, instance_id=1)
    own = PoolEntry(key=KVKey(0, 0), tier=Tier.HOST, slots=(0,), num_tokens=12)
    assert told.end(R00) == [
        ExportObject(instance_id=0, key=KVKey(0, 0), slots=(0,)),
        drop(0, 0),
        start(R00, 1, 1, loads=(own,)),
    ]


def test_a_prompt_is_pulled_where_it_is_missing() -> None:
    """Once it is computed; it stays at the holder, for other members."""
    told = Told(num_instances=1, placement=PULLING, num_host_slots=10, max_running=1)
    told.submit(2)
    told.stream(R00, 1)
    prompt = PoolEntry(key=KVKey(0), tier=Tier.HOST, slots=(0, 1), num_tokens=8)
    assert told.join(1) == [
        ExportObject(instance_id=0, key=KVKey(0), slots=(0, 1)),
        start(R01, 1, loads=(prompt,)),
    ]


def test_a_prompt_is_computed_once_a_member_has_ended_on_it() -> None:
    """Without any report of tokens before."""
    told = Told(num_instances=1, placement=PULLING, num_host_slots=10, max_running=1)
    told.submit(3)
    told.end(R00, 0, 1, ChunkEnd.STOP)
    (export, _) = told.join(1)
    assert export == ExportObject(instance_id=0, key=KVKey(0), slots=(0, 1))


def test_a_prompt_that_is_still_computed_is_not_pulled() -> None:
    """The other instance computes it as well."""
    told = Told(num_instances=1, placement=PULLING, num_host_slots=10, max_running=1)
    told.submit(2)
    assert told.join(1) == [start(R01, 1)]


def test_kv_within_the_margin_is_left_behind() -> None:
    """And dropped there: the request's KV is in one place only."""
    placement = PlacementConfig(max_spread=0, pull_gap_tokens=512)
    told = Told(num_instances=2, placement=placement, num_host_slots=10)
    told.submit(2, 1)
    told.end(R01, 0, 1, ChunkEnd.STOP, instance_id=1)
    assert told.end(R00) == [drop(0, 0), start(R00, 1, 1)]


def test_a_request_stays_with_its_kv_while_instances_are_balanced() -> None:
    """Although the other one is emptier."""
    told = Told(num_instances=2)
    told.submit(2)
    assert told.end(R00) == [start(R00, chunk_index=1)]
