"""The controller's promises, over random orders of events on model instances."""

import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seer.rollout.controller import Controller
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import Action, SpillObject
from seer.rollout.trace import TraceWriter, replay
from seer.scheduling.divided_policies import DividedPolicy
from seer.scheduling.placement import PlacementConfig
from seer.scheduling.policies import (
    DIVIDED_POLICY_NAMES,
    POLICY_NAMES,
    STATIC_POLICY_NAMES,
)
from seer.types import FinishReason, GroupSpec, RequestId
from support.model_cluster import run
from support.model_instance import make_info
from support.scenario import Faults, Outcome, Scenario

BLOCK = 4
PROMPT = st.integers(1, 3 * BLOCK + 1)
LIMIT = st.integers(1, 5 * BLOCK)
MOST_BLOCKS = 10
"""Blocks that the longest request needs: 13 prompt tokens and 20 more, without sharing."""

FAULTS = st.builds(
    Faults,
    lose=st.sampled_from([0.0, 0.03]),
    join=st.just(0.1),
    cancel=st.sampled_from([0.0, 0.05]),
    stale=st.sampled_from([0.0, 0.1]),
    failed_copy=st.sampled_from([0.0, 0.3]),
)
quick = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@st.composite
def scenarios(
    draw: st.DrawFn,
    policies: tuple[str, ...] = POLICY_NAMES,
    faults: st.SearchStrategy[Faults] = FAULTS,
    pools: tuple[tuple[int, int], ...] = ((0, 0), (7, 0), (7, 11), (500, 0)),
    gaps: tuple[int, ...] = (0, 6),
) -> Scenario:
    """Small clusters that are short of blocks, and requests of very different lengths."""
    num_groups = draw(st.integers(1, 6))
    sizes = [draw(st.integers(1, 4)) for _ in range(num_groups)]
    ids = [RequestId(group, member) for group, size in enumerate(sizes) for member in range(size)]
    lengths = {request_id: draw(st.integers(1, 6 * BLOCK)) for request_id in ids}
    groups = [
        _group(group, size, draw(PROMPT), draw(LIMIT), lengths) for group, size in enumerate(sizes)
    ]
    host, disk = draw(st.sampled_from(pools))
    remote = draw(st.sampled_from([0, 0, 5, 1000]))
    num_instances = draw(st.integers(1, 3))
    return Scenario(
        config=ControllerConfig(
            policy=draw(st.sampled_from(policies)),
            chunk_size=draw(st.sampled_from([None, 1, 3, 8])),
            placement=PlacementConfig(
                max_spread=draw(st.sampled_from([0, 1, 32])),
                pull_gap_tokens=draw(st.sampled_from(gaps)),
            ),
            num_host_slots=host,
            num_disk_slots=disk,
            num_remote_slots=remote,
        ),
        info=make_info(
            draw(st.integers(MOST_BLOCKS, 3 * MOST_BLOCKS)),
            block_size=BLOCK,
            max_running=draw(st.sampled_from([1, 3, 16])),
        ),
        num_instances=num_instances,
        groups=tuple(groups),
        lengths=lengths,
        seed=draw(st.integers(0, 2**32)),
        faults=draw(faults),
        late_groups=draw(st.integers(0, num_groups - 1)),
        late_instances=draw(st.integers(0, num_instances - 1)),
    )


def _group(
    group_id: int, size: int, num_prompt: int, limit: int, lengths: dict[RequestId, int]
) -> GroupSpec:
    own = [lengths[RequestId(group_id, member)] for member in range(size)]
    return GroupSpec(
        group_id=group_id,
        group_size=size,
        num_prompt_tokens=num_prompt,
        max_tokens=limit,
        known_lengths=tuple(min(length, limit) for length in own),
    )


@quick
@given(scenarios())
def test_every_request_finishes_exactly_once_whatever_happens(scenario: Scenario) -> None:
    """And a group with its last member, with KV never above capacity (checked on the way)."""
    outcome = run(scenario)
    assert set(outcome.finished) == set(scenario.lengths)
    assert sorted(outcome.finished_groups) == [g.group_id for g in scenario.groups]
    for request_id, reason in outcome.finished.items():
        assert reason is FinishReason.CANCELLED or _is_whole(scenario, outcome, request_id)


@quick
@given(scenarios(DIVIDED_POLICY_NAMES, st.just(Faults()), ((500, 0), (60, 500)), (0,)))
def test_divided_computes_nothing_twice_when_the_pool_is_big_enough(scenario: Scenario) -> None:
    """No position of an output, and no prompt twice on one instance."""
    outcome = run(scenario)
    assert outcome.num_reprefilled == 0
    assert outcome.max_prompts_computed <= 1


@quick
@given(scenarios(STATIC_POLICY_NAMES))
def test_static_policies_dispatch_whole_requests_and_move_no_kv(scenario: Scenario) -> None:
    """What happens on the instance is the engine's business."""
    outcome = run(scenario)
    assert outcome.num_exports == 0
    assert outcome.num_loads == 0


@settings(quick, max_examples=60)
@given(scenarios())
def test_same_inputs_give_a_byte_equal_trace_that_replays(
    tmp_path_factory: pytest.TempPathFactory, scenario: Scenario
) -> None:
    """Decisions depend on the events alone."""
    outcome = run(scenario, check=False)
    assert run(scenario, check=False).trace() == outcome.trace()
    file = io.BytesIO()
    writer = TraceWriter(file, scenario.config)
    for record in outcome.records:
        writer.write(record)
    path = Path(tmp_path_factory.getbasetemp()) / "trace.jsonl"
    path.write_bytes(file.getvalue())
    assert replay(path) == len(outcome.records)


def test_the_scenarios_do_move_kv() -> None:
    """The properties above would hold trivially if nothing were ever exported."""
    groups = tuple(
        GroupSpec(group_id=g, group_size=4, num_prompt_tokens=9, max_tokens=20) for g in range(6)
    )
    scenario = Scenario(
        config=ControllerConfig(
            chunk_size=3,
            placement=PlacementConfig(max_spread=0, pull_gap_tokens=0),
            num_host_slots=12,
            num_disk_slots=200,
        ),
        info=make_info(12, block_size=BLOCK),
        num_instances=3,
        groups=groups,
        lengths={RequestId(g, m): 5 + 5 * m for g in range(6) for m in range(4)},
        seed=1,
    )
    outcome = run(scenario)
    spills = [a for r in outcome.records for a in r.actions if isinstance(a, SpillObject)]
    assert outcome.num_exports > 5
    assert outcome.num_loads > 5
    assert spills


def test_an_event_of_an_unknown_chunk_changes_nothing() -> None:
    """Reports may cross with losses and cancellations."""
    outcome = run(
        Scenario(
            config=ControllerConfig(chunk_size=4),
            info=make_info(20),
            num_instances=1,
            groups=(GroupSpec(group_id=0, group_size=1, num_prompt_tokens=5, max_tokens=4),),
            lengths={RequestId(0, 0): 100},
            seed=3,
        )
    )
    fresh = Controller(ControllerConfig(chunk_size=4))
    for record in outcome.records[2:]:
        assert fresh.handle(record.event, record.t) == []


def _is_whole(scenario: Scenario, outcome: Outcome, request_id: RequestId) -> bool:
    """Whether it has all tokens up to its own end or its limit."""
    limit = scenario.groups[request_id.group].max_tokens
    wanted = min(limit, scenario.lengths[request_id])
    is_stop = outcome.finished[request_id] is FinishReason.STOP
    is_right = is_stop == (scenario.lengths[request_id] <= limit)
    return outcome.num_generated[request_id] == wanted and is_right


class _AsksEverybody(Controller):
    """Forgets which requests fitted nowhere: every instance is asked again each time."""

    def _start_what_fits(self, policy: DividedPolicy) -> list[Action]:
        self._refused = {}
        return super()._start_what_fits(policy)


@quick
@given(scenarios(DIVIDED_POLICY_NAMES))
def test_leaving_untouched_instances_unasked_changes_no_action(scenario: Scenario) -> None:
    """It saves time and nothing else."""
    patient = run(scenario, make_controller=_AsksEverybody)
    assert run(scenario).trace() == patient.trace()
