"""Several Ray nodes on this machine: what lies on other nodes, and nodes that go and come."""

import asyncio
from collections.abc import Iterator

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

from seer.cluster.ray_cluster import RayCluster  # noqa: E402
from seer.engines.process import ProcessSpec  # noqa: E402
from seer.engines.scripted import ScriptedSpec  # noqa: E402
from seer.engines.scripted_model import scripted_output  # noqa: E402
from seer.kvpool.pool import PoolConfig  # noqa: E402
from seer.kvpool.pool_node import is_pool_nodes  # noqa: E402
from seer.rollout.config import RolloutConfig  # noqa: E402
from seer.rollout.results import GroupResult  # noqa: E402
from seer.rollout.rollout import Rollout  # noqa: E402
from seer.scheduling.placement import PlacementConfig  # noqa: E402
from seer.types import SamplingParams  # noqa: E402

SPEC = ScriptedSpec(num_blocks=40, min_length=100, max_length=200, step_time_s=0.02)
SAMPLING = SamplingParams(seed=5, max_tokens=200)
PROMPTS = [f"Prompt number {i} of several" for i in range(6)]
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head with one processor."""
    if ray.is_initialized():
        ray.shutdown()
    made = Cluster(initialize_head=True, head_node_args=NODE)
    yield made
    made.shutdown()


def _check_texts(groups: list[GroupResult]) -> None:
    assert len(groups) == len(PROMPTS)
    for i, group in enumerate(groups):
        for completion in group.completions:
            expected = scripted_output(SPEC.shape, SAMPLING.seed, i, completion.member)
            assert completion.output_token_ids == expected[: SAMPLING.max_tokens]


def test_a_node_that_goes_takes_its_instance_and_one_that_comes_brings_another(
    cluster: Cluster,
) -> None:
    """The pool is on a pool node, as the instances share no memory; no text changes."""
    other = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    site = RayCluster(address=cluster.address, instance_cpus=0.9, max_instances=3)
    config = RolloutConfig(
        engine=ProcessSpec(inner=SPEC),
        site=site,
        chunk_size=16,
        placement=PlacementConfig(max_spread=0, pull_gap_tokens=0),
        pool=PoolConfig(host_bytes=1 << 22),
    )

    async def run() -> tuple[list[GroupResult], int, int]:
        async with Rollout(config) as rollout:
            assert is_pool_nodes(rollout._site.pool.host_path)
            work = asyncio.create_task(rollout.generate(PROMPTS, group_size=4, sampling=SAMPLING))
            while rollout._driver.store.num_tokens < 500:  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0.01)
            await asyncio.to_thread(cluster.remove_node, other, allow_graceful=False)
            groups = await work
            cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)  # in the main thread only
            async with asyncio.timeout(60):
                while rollout._fleet.num_alive < 2:  # noqa: ASYNC110 - no event says so
                    await asyncio.sleep(0.05)
            again = await rollout.generate(PROMPTS, group_size=4, sampling=SAMPLING)
            _check_texts(again)
            return groups, rollout.metrics().kv_bytes_moved, rollout.metrics().instances_lost

    groups, moved, lost = asyncio.run(run())
    _check_texts(groups)
    assert moved > 0
    assert lost >= 1
