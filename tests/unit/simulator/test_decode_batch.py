import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.simulator.decode_batch import DecodeBatch
from seer.simulator.speculation import Acceptance, Speculation
from seer.types import RequestId

STEP = SurfaceStepTime(fixed_s=0.01, per_request_s=0.001, per_context_token_s=1e-6)
A, B = RequestId(0, 0), RequestId(0, 1)


def _token_by_token(lengths: list[int], contexts: list[int]) -> list[float]:
    """When each request ends, by taking every step."""
    now, done = 0.0, [0] * len(lengths)
    ends = [0.0] * len(lengths)
    while any(d < n for d, n in zip(done, lengths, strict=True)):
        running = [i for i, n in enumerate(lengths) if done[i] < n]
        context = sum(contexts[i] + done[i] + 0.5 for i in running)
        now += STEP.step_s(len(running), len(running), context)
        for i in running:
            done[i] += 1
            ends[i] = now
    return ends


def test_a_stretch_of_steps_takes_as_long_as_the_steps_one_by_one() -> None:
    """Contexts grow on the way, and the batch shrinks when the shorter request ends."""
    expected = _token_by_token([50, 80], [100, 30])
    batch = DecodeBatch(STEP)
    batch.add(A, 50, 100, 0)
    batch.add(B, 80, 30, 0)
    ends = {}
    while len(batch):
        end = batch.next_end()
        assert end is not None
        batch.step_to(*end)
        for request_id in batch.take_ended():
            ends[request_id] = batch.now
            batch.remove(request_id, {A: 100, B: 30}[request_id])
    assert [ends[A], ends[B]] == pytest.approx(expected, rel=1e-9)
    assert batch.context_tokens == pytest.approx(0, abs=1e-6)


def test_a_request_that_joins_later_leaves_the_others_progress_alone() -> None:
    """Progress up to the join is counted at the old batch's pace."""
    batch = DecodeBatch(STEP)
    batch.add(A, 1000, 0, 0)
    batch.advance(1.0)
    done = batch.done(A)
    batch.add(B, 10, 0, 0)
    assert batch.done(A) == done > 0
    assert batch.done(B) == 0


def test_nothing_decodes_during_a_stall() -> None:
    """Prefill holds the whole batch up."""
    batch = DecodeBatch(STEP)
    batch.add(A, 1000, 0, 0)
    batch.stall(2.0)
    batch.advance(1.5)
    assert batch.done(A) == 0
    batch.advance(3.0)
    assert batch.done(A) > 0


def test_finished_siblings_speed_a_request_up() -> None:
    """Its drafts are accepted more often; what it had done stays done."""
    speculation = Speculation(Acceptance(), STEP)
    batch = DecodeBatch(STEP, speculation)
    batch.add(A, 1000, 0, 0)
    before = batch.growth
    batch.advance(1.0)
    done = batch.done(A)
    batch.set_siblings(A, 7)
    assert batch.growth > before > 1
    assert batch.done(A) == pytest.approx(done)


def test_requests_with_different_siblings_end_in_their_own_time() -> None:
    """Of two equal requests, the one with more finished siblings ends first."""
    batch = DecodeBatch(STEP, Speculation(Acceptance(), STEP))
    batch.add(A, 100, 0, 0)
    batch.add(B, 100, 0, 15)
    end = batch.next_end()
    assert end is not None
    batch.step_to(*end)
    assert batch.take_ended() == [B]
    assert 0 < batch.done(A) < 100


def test_a_slow_instance_takes_so_many_times_longer() -> None:
    """The factor applies to every step."""
    plain, slow = DecodeBatch(STEP), DecodeBatch(STEP, None, 3.0)
    for batch in (plain, slow):
        batch.add(A, 100, 0, 0)
    ends = [batch.next_end() for batch in (plain, slow)]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[1][0] == pytest.approx(3 * ends[0][0])


def test_the_next_step_begins_when_the_one_that_goes_on_is_over() -> None:
    """With what it prefills; without requests, or between two steps, it begins now."""
    batch = DecodeBatch(SurfaceStepTime(fixed_s=0.01))
    assert batch.next_step() == 0
    batch.add(A, 10, 0, 0)
    assert batch.next_step() == 0
    batch.stall(0.02)
    assert batch.next_step() == 0
    batch.advance(0.01)
    assert batch.next_step() == pytest.approx(0.03)
    batch.advance(0.055)
    assert batch.next_step() == pytest.approx(0.06)
    batch.advance(batch.next_step())
    assert batch.next_step() == batch.now
