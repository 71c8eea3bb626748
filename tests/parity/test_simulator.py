"""The simulator and the asyncio driver are two drivers of one controller."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import ChunkFinished, Event, KVExported
from seer.rollout.prompts import PromptItem
from seer.rollout.rollout import Rollout
from seer.rollout.trace import TraceRecord, read_trace
from seer.scheduling.placement import PlacementConfig
from seer.scheduling.policies import POLICY_NAMES
from seer.simulator.cluster import Cluster
from seer.simulator.length_model import draw_lengths, make_groups
from seer.simulator.simulation import Simulation
from seer.simulator.workload import Workload
from seer.types import SamplingParams
from support.conducted import ConductedSpec, Conductor

PROMPT, LIMIT, MEMBERS = 9, 120, 4
PLACEMENT = PlacementConfig(max_spread=1, pull_gap_tokens=0)
CLUSTER = Cluster(
    num_instances=2,
    kv_tokens=320,
    step_time=SurfaceStepTime(fixed_s=0.01, per_request_s=0.001, prefill_per_token_s=1e-4),
    kv_bytes_per_token=4,
    max_running=6,
    block_size=8,
    pool_host_tokens=1 << 14,
    transfer_bytes_per_s=1e5,
)


def _workload() -> Workload:
    lengths = draw_lengths(
        8,
        MEMBERS,
        mean_tokens=40,
        max_tokens=LIMIT,
        min_tokens=3,
        sigma_between=0.7,
        sigma_within=0.4,
        seed=1,
    )
    groups = make_groups(lengths, num_prompt_tokens=PROMPT, max_tokens=LIMIT)
    return Workload(name="small", groups=groups)


def _simulate(policy: str) -> list[TraceRecord]:
    records: list[TraceRecord] = []
    config = ControllerConfig(
        policy=policy,
        chunk_size=16,
        placement=PLACEMENT,
        num_host_slots=CLUSTER.pool_host_tokens // CLUSTER.block_size,
    )
    Simulation(CLUSTER, _workload(), config, on_record=records.append).run()
    return records


def _drive(policy: str, events: list[Event], path: Path) -> list[TraceRecord]:
    """The same rollout by the asyncio driver, over engines that end things in the same order."""
    workload = _workload()
    info = CLUSTER.info(workload.max_context_tokens)
    conductor = Conductor(events)
    slots = CLUSTER.pool_host_tokens // CLUSTER.block_size
    slot_bytes = 64 + info.block_bytes
    config = RolloutConfig(
        engine=ConductedSpec(info, conductor),
        num_instances=CLUSTER.num_instances,
        policy=policy,
        chunk_size=16,
        placement=PLACEMENT,
        pool=PoolConfig(host_bytes=slots * slot_bytes),
        trace_path=path,
    )
    prompts = [
        PromptItem(prompt=[0] * PROMPT, known_lengths=group.known_lengths)
        for group in workload.groups
    ]

    async def rollout() -> None:
        seen: list[TraceRecord] = []
        async with Rollout(config) as session:
            handle = session._driver._on_record
            session._driver._on_record = lambda record: (seen.append(record), handle(record))[1]
            seen += [None] * CLUSTER.num_instances  # type: ignore[list-item]  # joined already
            playing = asyncio.create_task(conductor.play(seen))
            await session.generate(
                prompts, group_size=MEMBERS, sampling=SamplingParams(max_tokens=LIMIT)
            )
            playing.cancel()

    asyncio.run(asyncio.wait_for(rollout(), 60))
    return list(read_trace(path))


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_both_drivers_get_the_same_actions(policy: str, tmp_path: Path) -> None:
    """Simulated events, imposed on real asyncio engines, are handled to byte-equal actions."""
    simulated = _simulate(policy)
    driven = _drive(policy, [record.event for record in simulated], tmp_path / "trace.jsonl")
    assert len(driven) == len(simulated)
    for mine, theirs in zip(driven, simulated, strict=True):
        assert type(mine.event) is type(theirs.event)
        assert msgspec.json.encode(mine.actions) == msgspec.json.encode(theirs.actions)
    ended = [record.event for record in simulated if isinstance(record.event, ChunkFinished)]
    assert len(ended) > len(_workload().groups) * MEMBERS or policy in POLICY_NAMES[:2]


def test_the_simulated_rollout_of_the_parity_test_moves_kv() -> None:
    """Else the test above would say little about copies."""
    events = [record.event for record in _simulate("divided")]
    assert any(isinstance(event, KVExported) for event in events)
    assert any(
        record.event.num_tokens
        for record in _simulate("seer")
        if isinstance(record.event, ChunkFinished)
    )
