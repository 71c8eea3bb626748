"""The acceptance of a rollout, out of its trace."""

import random

import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.errors import InvalidInput
from seer.rollout.events import Action, ChunkFinished, FinishRequest, Tick
from seer.rollout.trace import TraceRecord
from seer.simulator.acceptance_fit import fit_acceptance
from seer.simulator.speculation import Speculation
from seer.types import ChunkEnd, ChunkStats, FinishReason, InstanceLoad, RequestId

DEPTH = 4
STEPS = 60
TRUE = {0: 0.3, 1: 0.45, 2: 0.5, 3: 0.5, 4: 0.6, 5: 0.6, 6: 0.6, 7: 0.6}
"""Probability by finished siblings."""


def _stats(probability: float, draws: random.Random, num_steps: int = STEPS) -> ChunkStats:
    """A chunk each of whose steps drafts `DEPTH` places."""
    accepted = [0] * DEPTH
    for _ in range(num_steps):
        place = 0
        while place < DEPTH and draws.random() < probability:
            accepted[place] += 1
            place += 1
    return ChunkStats(
        num_decode_steps=num_steps,
        drafted_by_position=(num_steps,) * DEPTH,
        accepted_by_position=tuple(accepted),
    )


def _record(request_id: RequestId, stats: ChunkStats, *, is_last: bool = True) -> TraceRecord:
    event = ChunkFinished(
        request_id=request_id,
        chunk_index=0,
        instance_id=0,
        num_tokens=STEPS,
        end=ChunkEnd.STOP if is_last else ChunkEnd.LENGTH,
        stats=stats,
        load=InstanceLoad(free_kv_tokens=0, num_running=0, num_waiting=0),
    )
    actions: list[Action] = []
    if is_last:
        actions.append(FinishRequest(request_id=request_id, reason=FinishReason.STOP))
    return TraceRecord(t=0.0, event=event, actions=actions)


def _trace(num_groups: int, num_steps: int = STEPS) -> list[TraceRecord]:
    """Members of each group end one after the other, each in one chunk."""
    draws = random.Random(0)
    return [
        _record(RequestId(group, member), _stats(probability, draws, num_steps))
        for group in range(num_groups)
        for member, probability in TRUE.items()
    ]


def test_a_known_probability_is_found_again() -> None:
    """For each number of finished siblings, within what chance does to some thousand guesses."""
    acceptance = fit_acceptance(_trace(num_groups=60))
    assert {paths: sorted(row) for paths, row in acceptance.lengths.items()} == {1: [0, 1, 2, 6]}
    for siblings, probability in ((0, 0.3), (1, 0.45), (2, 0.5), (6, 0.6)):
        assert acceptance.probability(1, siblings) == pytest.approx(probability, abs=0.03)


def test_buckets_with_few_guesses_are_joined() -> None:
    """Down to a single one, which then holds for any number of siblings."""
    acceptance = fit_acceptance(_trace(num_groups=1, num_steps=4))
    assert len(acceptance.lengths[1]) == 1
    assert acceptance.probability(1, 0) == acceptance.probability(1, 15)
    joined = fit_acceptance(_trace(num_groups=4, num_steps=10))
    assert 1 < len(joined.lengths[1]) < 4


def test_a_place_that_few_drafts_reach_counts_few_trials() -> None:
    """Two of three drafts end at the first place: the second is tried once, and right."""
    stats = ChunkStats(drafted_by_position=(3, 1), accepted_by_position=(2, 1))
    acceptance = fit_acceptance([_record(RequestId(0, 0), stats)])
    assert acceptance.probability(1, 0) == pytest.approx(3 / 4)


def test_all_wrong_and_all_right_are_answers_too() -> None:
    """Drafts that never help, and drafts that always do."""
    wrong = ChunkStats(drafted_by_position=(9, 9), accepted_by_position=(0, 0))
    right = ChunkStats(drafted_by_position=(9, 9), accepted_by_position=(9, 9))
    assert fit_acceptance([_record(RequestId(0, 0), wrong)]).probability(1, 0) == 0
    assert fit_acceptance([_record(RequestId(0, 0), right)]).probability(1, 0) > 0.9


def test_a_simulation_drafts_by_what_was_fitted() -> None:
    """One path is all that a trace tells of."""
    acceptance = fit_acceptance(_trace(num_groups=10))
    plan = Speculation(acceptance, SurfaceStepTime(fixed_s=0.01)).plan({0: 2, 5: 2}, 100)
    assert (plan.positions, plan.paths) == (acceptance.max_positions, 1)


def test_a_trace_without_drafts_is_refused_by_name() -> None:
    """Nothing can be fitted to it."""
    records = [_record(RequestId(0, 0), ChunkStats()), TraceRecord(t=1.0, event=Tick(), actions=[])]
    with pytest.raises(InvalidInput, match=r"acceptance: got 'out/trace.jsonl'.*with drafts"):
        fit_acceptance(records, "out/trace.jsonl")
