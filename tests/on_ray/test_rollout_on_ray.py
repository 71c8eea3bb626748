"""A rollout whose instances and draft servers are Ray actors."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")

from seer.cluster.ray_cluster import RayCluster  # noqa: E402
from seer.drafting.config import DraftingConfig  # noqa: E402
from seer.drafting.sharded_server import link_to  # noqa: E402
from seer.engines.process import ProcessSpec  # noqa: E402
from seer.engines.process_engine import ProcessEngine  # noqa: E402
from seer.engines.scripted import ScriptedSpec  # noqa: E402
from seer.engines.scripted_model import scripted_output  # noqa: E402
from seer.errors import EngineFailure, InvalidInput  # noqa: E402
from seer.kvpool.pool import PoolConfig  # noqa: E402
from seer.rollout.config import RolloutConfig  # noqa: E402
from seer.rollout.events import FinishRequest, StartChunk  # noqa: E402
from seer.rollout.results import GroupResult  # noqa: E402
from seer.rollout.rollout import Rollout  # noqa: E402
from seer.rollout.trace import read_trace, replay  # noqa: E402
from seer.scheduling.placement import PlacementConfig  # noqa: E402
from seer.types import SamplingParams  # noqa: E402

pytestmark = pytest.mark.usefixtures("local_ray")

SPEC = ScriptedSpec(num_blocks=40, min_length=60, max_length=90, step_time_s=0.003)
SAMPLING = SamplingParams(seed=5, max_tokens=90)
PROMPTS = [f"Prompt number {i} of several" for i in range(4)]
GROUP_SIZE = 4
SMALL = 0.1


def _config(**changes: object) -> RolloutConfig:
    settings = {
        "engine": ProcessSpec(inner=SPEC),
        "site": RayCluster(instance_cpus=SMALL),
        "chunk_size": 8,
        "pool": PoolConfig(host_bytes=1 << 22),
        **changes,
    }
    return RolloutConfig(**settings)  # type: ignore[arg-type]


def _engine(rollout: Rollout, instance_id: int) -> ProcessEngine:
    engine = rollout._fleet.placed[instance_id].engine
    assert isinstance(engine, ProcessEngine)
    return engine


async def _after(rollout: Rollout, num_tokens: int) -> None:
    while rollout._driver.store.num_tokens < num_tokens:  # noqa: ASYNC110 - no event says so
        await asyncio.sleep(0.001)


async def _generate(rollout: Rollout) -> list[GroupResult]:
    return await rollout.generate(PROMPTS, group_size=GROUP_SIZE, sampling=SAMPLING)


def _check_texts(groups: list[GroupResult], num_groups: int = len(PROMPTS)) -> None:
    assert len(groups) == num_groups
    for i, group in enumerate(groups):
        for completion in group.completions:
            expected = scripted_output(SPEC.shape, SAMPLING.seed, i, completion.member)
            assert completion.output_token_ids == expected[: SAMPLING.max_tokens]


def _check_trace(trace: Path, num_groups: int = len(PROMPTS)) -> None:
    actions = [action for record in read_trace(trace) for action in record.actions]
    finished = Counter(a.request_id for a in actions if isinstance(a, FinishRequest))
    assert len(finished) == num_groups * GROUP_SIZE
    assert set(finished.values()) == {1}
    assert replay(trace) > 0


def test_an_actor_that_is_killed_is_an_instance_lost(tmp_path: Path) -> None:
    """Its requests go on, and it comes back as another actor in the same place."""
    trace = tmp_path / "trace.jsonl"

    async def run() -> tuple[list[GroupResult], int, bool]:
        async with Rollout(_config(trace_path=trace)) as rollout:
            work = asyncio.create_task(_generate(rollout))
            await _after(rollout, 400)
            before = _engine(rollout, 0).pid
            os.kill(before, signal.SIGKILL)
            groups = await work
            async with asyncio.timeout(30):
                while rollout._fleet.num_alive < 2:  # noqa: ASYNC110 - no event says so
                    await asyncio.sleep(0.01)
            is_new = _engine(rollout, 0).pid != before
            return groups, rollout.metrics().instances_lost, is_new

    groups, lost, is_new = asyncio.run(run())
    assert (lost, is_new) == (1, True)
    _check_texts(groups)
    _check_trace(trace)


def test_kills_again_and_again_cost_no_request_and_no_token(tmp_path: Path) -> None:
    """One instance after the other; all requests end once, with the tokens of none killed."""
    trace = tmp_path / "trace.jsonl"
    prompts = [f"Prompt number {i}" for i in range(60)]
    num_kills = 3

    async def run() -> tuple[list[GroupResult], int]:
        async with Rollout(_config(num_instances=3, trace_path=trace)) as rollout:
            work = asyncio.create_task(
                rollout.generate(prompts, group_size=GROUP_SIZE, sampling=SAMPLING)
            )
            for kill in range(num_kills):
                await _after(rollout, 3000 * (kill + 1))
                os.kill(_engine(rollout, kill).pid, signal.SIGKILL)
            return await work, rollout.metrics().instances_lost

    groups, lost = asyncio.run(run())
    assert lost == num_kills
    _check_texts(groups, len(prompts))
    _check_trace(trace, len(prompts))


def test_instances_join_and_leave_while_a_rollout_runs(tmp_path: Path) -> None:
    """The one that joins takes part; the room of the one that leaves is used again."""
    trace = tmp_path / "trace.jsonl"
    prompts = [f"Prompt number {i}" for i in range(60)]

    async def run() -> list[GroupResult]:
        async with Rollout(_config(num_instances=1, trace_path=trace)) as rollout:
            work = asyncio.create_task(
                rollout.generate(prompts, group_size=GROUP_SIZE, sampling=SAMPLING)
            )
            await _after(rollout, 200)
            assert await rollout.add_instance() == 1
            await rollout.remove_instance(0)
            return await work

    _check_texts(asyncio.run(run()), len(prompts))
    _check_trace(trace, len(prompts))
    starts = [a for r in read_trace(trace) for a in r.actions if isinstance(a, StartChunk)]
    assert {start.instance_id for start in starts} == {0, 1}


def test_a_session_grows_to_its_largest_number_of_instances() -> None:
    """As the cluster has room."""

    async def run() -> int:
        site = RayCluster(instance_cpus=SMALL, max_instances=3)
        async with Rollout(_config(num_instances=1, site=site)) as rollout:
            async with asyncio.timeout(60):
                while rollout._fleet.num_alive < 3:  # noqa: ASYNC110 - no event says so
                    await asyncio.sleep(0.01)
            _check_texts(await _generate(rollout))
            return rollout._fleet.num_alive

    assert asyncio.run(run()) == 3


def test_groups_are_sharded_over_draft_servers_that_come_back() -> None:
    """Each serves its part; one that is killed is started again at its address."""
    site = RayCluster(instance_cpus=SMALL, draft_servers=2)
    config = _config(drafting=DraftingConfig(budget="fixed:4"), site=site)

    async def run() -> tuple[list[GroupResult], int]:
        async with Rollout(config) as rollout:
            groups = await _generate(rollout)
            server = rollout._site.setup(0).drafting.server
            assert server is not None
            assert len(server.split(",")) == 2
            for each in rollout._site.draft_servers:  # type: ignore[attr-defined]
                ray.kill(each.actor)
            async with asyncio.timeout(30):
                while not await asyncio.to_thread(_answers, server):
                    pass
            return groups, rollout.metrics().accepted_tokens

    groups, accepted = asyncio.run(run())
    _check_texts(groups)
    assert accepted > 0


def _answers(server: str) -> bool:
    links = [link_to(address) for address in server.split(",")]
    try:
        for link in links:
            link.fetch(())
    except ConnectionError:
        return False
    finally:
        for link in links:
            link.close()
    return True


def test_kv_moves_through_pool_nodes() -> None:
    """Exported by one actor, loaded by another, without a computation anew."""
    placement = PlacementConfig(max_spread=0, pull_gap_tokens=0)
    site = RayCluster(instance_cpus=SMALL, pool_nodes=2)

    async def run() -> tuple[list[GroupResult], int, int]:
        async with Rollout(_config(site=site, placement=placement)) as rollout:
            groups = await _generate(rollout)
            metrics = rollout.metrics()
            return groups, metrics.kv_bytes_moved, metrics.load_failures

    groups, num_bytes, num_failures = asyncio.run(run())
    _check_texts(groups)
    assert num_bytes > 0
    assert num_failures == 0


def test_what_does_not_fit_is_refused_with_what_there_is() -> None:
    """Asked and available, before anything is started."""

    async def run(site: RayCluster) -> None:
        async with Rollout(_config(num_instances=3, site=site)):
            pass

    with pytest.raises(InvalidInput, match=r"3 instances of 2 CPUs.*room for 2 such.*4 CPUs"):
        asyncio.run(run(RayCluster(instance_cpus=2)))
    with pytest.raises(InvalidInput, match=r"0\.1 CPUs and 1 GPUs.*0 GPUs"):
        asyncio.run(run(RayCluster(instance_cpus=SMALL, instance_gpus=1)))


def test_an_engine_that_does_not_launch_is_told_as_it_is() -> None:
    """Its own words come through the actor."""
    spec = ProcessSpec(inner=ScriptedSpec(launch_failure="no such accelerator"))

    async def run() -> None:
        async with Rollout(_config(engine=spec, num_instances=1)):
            pass

    with pytest.raises(EngineFailure, match="no such accelerator"):
        asyncio.run(run())
