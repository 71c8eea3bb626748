"""The simulated rollout: same controller, virtual time."""

import io
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.errors import InvalidInput
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import KVExported
from seer.rollout.trace import TraceRecord, TraceWriter, replay
from seer.scheduling.policies import DIVIDED_POLICY_NAMES, POLICY_NAMES
from seer.simulator.baselines import partial_rollout, streamrl_oracle
from seer.simulator.bounds import lower_bounds
from seer.simulator.cluster import Cluster
from seer.simulator.length_model import draw_lengths, make_groups
from seer.simulator.simulation import Fault, Simulation, SimulationResult
from seer.simulator.speculation import Acceptance
from seer.simulator.workload import Workload

LIMIT = 2000
CLUSTER = Cluster(
    num_instances=3,
    kv_tokens=2600,
    step_time=SurfaceStepTime(
        fixed_s=0.01, per_request_s=1e-4, per_context_token_s=1e-6, prefill_per_token_s=1e-4
    ),
    kv_bytes_per_token=1000,
    max_running=64,
    block_size=16,
    pool_host_tokens=400_000,
)


def _workload(num_groups: int = 24, seed: int = 0) -> Workload:
    lengths = draw_lengths(
        num_groups,
        4,
        mean_tokens=400,
        max_tokens=LIMIT,
        sigma_between=0.9,
        sigma_within=0.3,
        seed=seed,
        min_tokens=8,
    )
    groups = make_groups(lengths, num_prompt_tokens=50, max_tokens=LIMIT)
    return Workload(name="small", groups=groups)


def _run(
    policy: str, cluster: Cluster = CLUSTER, seed: int = 0, **options: object
) -> SimulationResult:
    config = ControllerConfig(
        policy=policy,
        chunk_size=64,
        num_host_slots=cluster.pool_host_tokens // cluster.block_size,
    )
    return Simulation(cluster, _workload(seed=seed), config, **options).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_every_request_gets_its_length_and_no_result_beats_the_bound(policy: str) -> None:
    """The static policies preempt under this memory, the divided ones do not."""
    workload = _workload()
    result = _run(policy)
    metrics = result.metrics
    assert metrics.output_tokens == workload.output_tokens
    assert len(result.finish_s) == workload.num_requests
    bounds = lower_bounds(CLUSTER, workload)
    assert metrics.total_time_s >= bounds.total_s
    assert bounds.longest_s <= bounds.total_s
    assert (metrics.preemptions == 0) == (policy in DIVIDED_POLICY_NAMES)


def test_longest_first_beats_first_come_first_served() -> None:
    """The point of length context, on workloads whose groups differ: not in each, but on the whole.

    Whether a member that turns out to be the longest was begun early is in part luck.
    """
    totals = {
        policy: sum(_run(policy, seed=seed).metrics.total_time_s for seed in range(10))
        for policy in ("group_round_robin", "divided", "seer")
    }
    assert totals["seer"] < totals["divided"] < totals["group_round_robin"]


def test_equal_arguments_give_equal_records() -> None:
    """Byte for byte."""
    runs = []
    for _ in range(2):
        records: list[TraceRecord] = []
        _run("seer", on_record=records.append)
        runs.append(msgspec.json.encode(records))
    assert runs[0] == runs[1]


def test_a_simulated_trace_replays(tmp_path: Path) -> None:
    """It is an ordinary trace of the controller."""
    config = ControllerConfig(policy="context_aware", chunk_size=64, num_host_slots=1000)
    buffer = io.BytesIO()
    Simulation(CLUSTER, _workload(), config, on_record=TraceWriter(buffer, config).write).run()
    path = tmp_path / "trace.jsonl"
    path.write_bytes(buffer.getvalue())
    assert replay(path) > 100


def test_a_lost_instance_costs_time_and_no_token() -> None:
    """Its requests go on from what they had; the instance may come back."""
    calm = _run("seer")
    faults = [
        Fault(time_s=1.0, instance_id=1, kind="leave"),
        Fault(time_s=2.0, instance_id=1, kind="join"),
        Fault(time_s=3.0, instance_id=0, kind="leave"),
    ]
    hit = _run("seer", faults=faults)
    assert hit.metrics.output_tokens == calm.metrics.output_tokens
    assert hit.metrics.instances_lost == 2
    assert hit.metrics.total_time_s > calm.metrics.total_time_s


def test_a_slow_instance_is_given_less() -> None:
    """Divided rollout works around it; dealt requests are stuck with it."""
    slow = replace(CLUSTER, slowdown={0: 4.0})
    cost = {
        policy: _run(policy, slow).metrics.total_time_s / _run(policy).metrics.total_time_s
        for policy in ("group_round_robin", "seer")
    }
    assert cost["seer"] < cost["group_round_robin"]


def test_drafts_shorten_a_rollout_and_finished_siblings_more_so() -> None:
    """The group's texts are worth more than a request's own."""
    plain = _run("seer").metrics.total_time_s
    own = _run("seer", acceptance=Acceptance(grouped=False)).metrics.total_time_s
    grouped = _run("seer", acceptance=Acceptance()).metrics.total_time_s
    assert grouped < own < plain


def test_a_request_that_goes_on_where_it_is_misses_nothing() -> None:
    """Its engine does not wait for the next chunk, whatever handing it over takes."""
    for lengths in ([40], [40, 40]):
        between = _steps_only(lengths, takes_between_steps=True, handover_s=0.003)
        assert between == pytest.approx(_steps_only(lengths) + 0.003)  # the first hand-over alone


def test_a_request_that_comes_anew_waits_for_the_step_that_goes_on() -> None:
    """Where engines take chunks between steps: the third, when the first has left its place."""
    lengths = [5, 100, 95]
    quick = _steps_only(lengths)
    between = _steps_only(lengths, takes_between_steps=True, handover_s=0.003)
    assert quick + 0.01 <= between <= quick + 3 * 0.01


def _steps_only(lengths: list[int], **change: object) -> float:
    """Total seconds on one instance of two places, chunks of ten tokens and 10 ms a step."""
    cluster = Cluster(
        num_instances=1,
        kv_tokens=2048,
        step_time=SurfaceStepTime(fixed_s=0.01),
        kv_bytes_per_token=1000,
        max_running=2,
    )
    specs = make_groups(np.array(lengths)[:, None], num_prompt_tokens=8, max_tokens=128)
    config = ControllerConfig(policy="divided", chunk_size=10)
    workload = Workload(name="steps", groups=specs)
    run = Simulation(replace(cluster, **change), workload, config).run()  # type: ignore[arg-type]
    return run.metrics.total_time_s


def test_bytes_that_are_read_count_as_moved() -> None:
    """What goes to the pool comes back from it, mostly."""
    records: list[TraceRecord] = []
    metrics = _run("seer", on_record=records.append).metrics
    events = [record.event for record in records]
    written = sum(event.num_bytes for event in events if isinstance(event, KVExported))
    assert 1.5 * written < metrics.kv_bytes_moved <= 2.5 * written


def test_streamrl_keeps_groups_whole_and_never_preempts() -> None:
    """Its buckets know true lengths."""
    plan = streamrl_oracle(CLUSTER, _workload())
    result = Simulation(
        CLUSTER,
        plan.workload,
        ControllerConfig(policy="group_round_robin"),
        static_policy=plan.policy,
        max_running=plan.limits,
    ).run()
    assert result.metrics.preemptions == 0
    assert result.metrics.output_tokens == _workload().output_tokens
    longest = [max(group.known_lengths) for group in plan.workload.groups]
    assert longest == sorted(longest, reverse=True)


def test_partial_rollout_hands_shorter_responses_to_training() -> None:
    """It stops with the wanted number of groups: the long ones are left for later."""
    workload = _workload(60)
    partial = partial_rollout(CLUSTER, workload, num_iterations=2)
    mean = sum(partial.finished_lengths) / len(partial.finished_lengths)
    assert mean < workload.output_tokens / workload.num_requests


def test_a_cluster_that_cannot_hold_the_longest_request_is_refused() -> None:
    """Before anything runs."""
    with pytest.raises(InvalidInput, match="kv_tokens"):
        _run("seer", replace(CLUSTER, kv_tokens=1024))


@pytest.mark.parametrize(
    "change",
    [
        {"num_instances": 0},
        {"kv_tokens": 0},
        {"pool_host_tokens": -1},
        {"kv_bytes_per_token": 0.0},
        {"handover_s": -1.0},
        {"slowdown": {7: 2.0}},
    ],
)
def test_bad_machines_are_refused(change: dict[str, object]) -> None:
    """Naming the field."""
    with pytest.raises(InvalidInput, match=next(iter(change))):
        replace(CLUSTER, **change)
