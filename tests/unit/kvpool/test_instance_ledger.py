import pytest

from seer.kvpool.blocks import Footprint
from seer.kvpool.eviction import eviction_order
from seer.kvpool.instance_ledger import InstanceLedger, ObjectSize
from seer.types import KVKey, RequestId

A0, A1, B0, C0 = RequestId(0, 0), RequestId(0, 1), RequestId(1, 0), RequestId(2, 0)


def _ledger() -> InstanceLedger:
    """10 blocks; A0 at rest (prompt 2, own 3), B0 running (prompt 1, own 2)."""
    ledger = InstanceLedger(10)
    ledger.start(A0, Footprint(prompt=2, own=3), 9)
    ledger.rest(A0, 18, 3)
    ledger.start(B0, Footprint(prompt=1, own=2), 5)
    ledger.check_integrity()
    return ledger


def _order(request_id: RequestId) -> tuple[int, ...]:
    return (request_id.group, request_id.member)


def test_a_chunk_in_flight_holds_its_blocks_of_the_end() -> None:
    """And its prompt's."""
    ledger = _ledger()
    assert ledger.free_blocks == 2
    assert ledger.num_running == 1
    assert list(ledger.running_requests()) == [B0]
    assert list(ledger.resting_requests()) == [A0]


def test_what_is_there_need_not_be_added() -> None:
    """A member shares the prompt; a request at rest keeps its own blocks."""
    ledger = _ledger()
    assert ledger.needed_blocks(A0, Footprint(prompt=2, own=4)) == 1
    assert ledger.needed_blocks(A1, Footprint(prompt=2, own=4)) == 4
    assert ledger.needed_blocks(C0, Footprint(prompt=2, own=4)) == 6


def test_cached_tokens_are_the_requests_own_or_its_prompts() -> None:
    """A prompt counts as soon as a member computes it."""
    ledger = _ledger()
    assert ledger.cached_tokens(A0) == 18
    assert ledger.cached_tokens(A1) == 8
    assert ledger.cached_tokens(C0) == 0


def test_a_request_cannot_reclaim_what_it_builds_on() -> None:
    """For others the prompt and the object at rest are reclaimable; what runs never is."""
    ledger = _ledger()
    assert ledger.reclaimable_blocks(A0) == 0
    assert ledger.reclaimable_blocks(A1) == 3
    assert ledger.reclaimable_blocks(C0) == 5


def test_an_object_can_be_exported_when_it_is_whole_and_at_rest() -> None:
    """A prompt is whole once a member has generated on it."""
    ledger = _ledger()
    assert ledger.exportable(A0.kv_key) == ObjectSize(blocks=3, num_tokens=18)
    assert ledger.exportable(KVKey(0)) == ObjectSize(blocks=2, num_tokens=8)
    assert ledger.exportable(B0.kv_key) is None
    assert ledger.exportable(KVKey(1)) is None
    ledger.mark_ready(1)
    assert ledger.exportable(KVKey(1)) == ObjectSize(blocks=1, num_tokens=4)
    assert ledger.exportable(C0.kv_key) is None
    assert ledger.exportable(KVKey(2)) is None


def test_dropping_gives_blocks_back() -> None:
    """Of a running request, of one at rest, of a prompt without members."""
    ledger = _ledger()
    ledger.drop_request(B0)
    ledger.check_integrity()
    assert ledger.free_blocks == 4
    ledger.drop_request(A0)
    ledger.drop_prompt(0)
    ledger.drop_prompt(1)
    ledger.check_integrity()
    assert ledger.free_blocks == 10


def test_a_prompt_that_members_build_on_cannot_be_dropped() -> None:
    """Not even by a member at rest."""
    with pytest.raises(AssertionError, match="in use"):
        _ledger().drop_prompt(0)


def test_more_than_the_instance_has_is_never_reserved() -> None:
    """Whoever starts a chunk has made room first."""
    with pytest.raises(AssertionError, match="over-admitted"):
        _ledger().start(C0, Footprint(prompt=1, own=2), 5)


def test_requests_leave_before_prompts_and_the_last_in_order_first() -> None:
    """The request that is kept, and its prompt, are spared."""
    ledger = InstanceLedger(20)
    for request_id in (B0, A0, A1, C0):
        ledger.start(request_id, Footprint(prompt=1, own=2), 5)
        ledger.rest(request_id, 8, 2)
    order = eviction_order(ledger, C0, _order)
    evicted = []
    for key in order:
        evicted.append(key)
        if key.member is None:
            ledger.drop_prompt(key.group)
        else:
            ledger.drop_request(RequestId(key.group, key.member))
    assert evicted == [B0.kv_key, A1.kv_key, A0.kv_key, KVKey(1), KVKey(0)]
    ledger.check_integrity()
    assert ledger.free_blocks == 17


def test_a_prompt_is_spared_for_a_member_that_is_about_to_start() -> None:
    """Although none is on the instance."""
    ledger = InstanceLedger(10)
    for request_id in (A0, B0):
        ledger.start(request_id, Footprint(prompt=1, own=2), 5)
        ledger.drop_request(request_id)
    assert list(eviction_order(ledger, A1, _order)) == [KVKey(1)]
