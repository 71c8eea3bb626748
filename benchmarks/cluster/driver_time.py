"""CPU time of the driver for each chunk that ends, by the number of instances on Ray (measured).

    python benchmarks/cluster/driver_time.py [--instances 8 64 256] [--actors 8]

Scripted instances, which cost the driver what real ones do: their chunks, tokens and loads arrive
over ZeroMQ. Instances beyond the number of actors share them, several in a process, so that 256 fit
in the memory of one machine; each has its own connection to the driver, and its own engine. Prints
a JSON line a size: process time (all threads: event loop, ZeroMQ, Ray) and event-loop time a chunk,
and the controller's part of it. Needs the extra `ray`.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import ray

from seer.cluster.actors.actor_process import ActorProcess, located
from seer.cluster.actors.connection import connected
from seer.cluster.actors.roles import InstanceActor
from seer.engines.channel import Channel
from seer.engines.process import ProcessSpec
from seer.engines.scripted import ScriptedSpec
from seer.kvpool.pool import PoolOwner, Spilled
from seer.rollout.config import RolloutConfig
from seer.rollout.controller import Controller
from seer.rollout.engine import Engine, InstanceSetup
from seer.rollout.events import Action, Event
from seer.rollout.rollout import Rollout
from seer.rollout.site import Site, SitePlan
from seer.types import PoolAddress, SamplingParams

GROUP_SIZE = 8
GROUPS_PER_INSTANCE = 3
MAX_GROUPS = 256
"""So that the largest size takes a minute or two on a machine of two cores."""
MAX_TOKENS = 192
SPEC = ScriptedSpec(
    num_blocks=256, max_running_requests=8, min_length=64, max_length=MAX_TOKENS, step_time_s=0.02
)
HOSTING = ProcessSpec(inner=SPEC, heartbeat_limit_s=600.0)


class SharedActors(msgspec.Struct, frozen=True):
    """A site of few actors, each of which hosts many instances."""

    num_actors: int

    @asynccontextmanager
    async def open(self, plan: SitePlan) -> AsyncIterator[Site]:
        """Start the actors."""
        each = -(-plan.num_instances // self.num_actors)
        count = min(self.num_actors, plan.num_instances)
        role = ray.remote(num_cpus=0, max_concurrency=each + 1)(InstanceActor)
        async with connected(None):
            pool = PoolOwner.create(plan.pool, plan.info.block_bytes)
            try:
                yield _SharedSite([role.remote() for _ in range(count)], pool)
            finally:
                pool.close()


class _SharedSite:
    def __init__(self, actors: list[Any], pool: PoolOwner) -> None:
        self._actors = actors
        self._pool = pool

    @property
    def pool(self) -> PoolAddress:
        return self._pool.address

    def setup(self, instance_id: int) -> InstanceSetup:
        return InstanceSetup(instance_id=instance_id, pool=self._pool.address)

    async def launch(self, setup: InstanceSetup) -> Engine:
        actor = self._actors[setup.instance_id % len(self._actors)]
        channel = Channel(f"tcp://{ray.util.get_node_ip_address()}:*")
        hello = HOSTING.hello(setup, channel.address)
        host = ActorProcess(actor, await located(actor, 60.0), actor.serve.remote(hello))
        return await HOSTING.engine_in(host, channel, setup.instance_id)

    def forget(self, instance_id: int) -> None:
        raise NotImplementedError

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> Spilled:
        return self._pool.spill(host_slots, disk_slots)

    async def wait_for_room(self) -> bool:
        return False


class TimedController(Controller):
    """Sums up the time of its decisions."""

    spent_s = 0.0

    def handle(self, event: Event, now: float) -> list[Action]:
        """As the controller does."""
        begin = time.thread_time()
        actions = super().handle(event, now)
        TimedController.spent_s += time.thread_time() - begin
        return actions


async def measure(num_instances: int, num_actors: int) -> dict[str, float]:
    """One rollout; times in microseconds a chunk."""
    config = RolloutConfig(
        engine=HOSTING, site=SharedActors(num_actors), num_instances=num_instances, chunk_size=32
    )
    num_groups = min(GROUPS_PER_INSTANCE * num_instances, MAX_GROUPS)
    prompts = [f"Prompt number {i}" for i in range(num_groups)]
    sampling = SamplingParams(seed=1, max_tokens=MAX_TOKENS)
    async with Rollout(config) as rollout:
        rollout._driver._controller.__class__ = TimedController  # noqa: SLF001 - nothing public
        TimedController.spent_s = 0.0
        wall, process, thread = time.monotonic(), time.process_time(), time.thread_time()
        await rollout.generate(prompts, group_size=GROUP_SIZE, sampling=sampling)
        wall, process, thread = (
            time.monotonic() - wall,
            time.process_time() - process,
            time.thread_time() - thread,
        )
        metrics = rollout.metrics()
    each_us = 1e6 / metrics.num_chunks
    return {
        "instances": num_instances,
        "actors": min(num_instances, num_actors),
        "requests": metrics.num_requests,
        "chunks": metrics.num_chunks,
        "tokens_per_chunk": metrics.output_tokens / metrics.num_chunks,
        "seconds": wall,
        "process_us_per_chunk": process * each_us,
        "loop_us_per_chunk": thread * each_us,
        "controller_us_per_chunk": TimedController.spent_s * each_us,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[8, 64, 256])
    parser.add_argument("--actors", type=int, default=8)
    args = parser.parse_args()
    for num_instances in args.instances:
        row = asyncio.run(measure(num_instances, args.actors))
        rounded = {name: round(value, 1) for name, value in row.items()}
        print(json.dumps(rounded), flush=True)


if __name__ == "__main__":
    main()
