"""This machine as the place of a session: shared memory, pinned processors, one draft server."""

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import msgspec

from seer.kvpool.pool import PoolOwner, Spilled
from seer.rollout.draft_service import DraftService
from seer.rollout.engine import Engine, InstanceSetup
from seer.rollout.site import Site, SitePlan
from seer.types import PoolAddress


class ThisMachine(msgspec.Struct, frozen=True):
    """All processes are children of this one."""

    def open(self, plan: SitePlan) -> AbstractAsyncContextManager[Site]:
        """Make the pool, and start the draft server if the instances need one."""
        return _open(plan)


@asynccontextmanager
async def _open(plan: SitePlan) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        pool = PoolOwner.create(plan.pool, plan.info.block_bytes)
        stack.callback(pool.close)
        server = None
        if plan.wants_draft_server and plan.num_instances > 1:
            service = await DraftService.start(plan.info.vocab_size)
            stack.push_async_callback(service.close)
            server = service.address
        yield _LocalSite(plan, pool, server)


class _LocalSite:
    def __init__(self, plan: SitePlan, pool: PoolOwner, draft_server: str | None) -> None:
        self._plan = plan
        self._pool = pool
        self._draft_server = draft_server
        self._cpus = plan.cpus or deal_cpus(sorted(os.sched_getaffinity(0)), plan.num_instances)

    @property
    def pool(self) -> PoolAddress:
        """Files of this machine."""
        return self._pool.address

    def setup(self, instance_id: int) -> InstanceSetup:
        """With its share of the processors; an instance that joins later shares another's."""
        drafting = self._plan.drafting
        return InstanceSetup(
            instance_id=instance_id,
            pool=self._pool.address,
            drafting=msgspec.structs.replace(
                drafting, server=drafting.server or self._draft_server
            ),
            cpus=self._cpus[instance_id % len(self._cpus)],
        )

    async def launch(self, setup: InstanceSetup) -> Engine:
        """As the engine's spec does."""
        return await self._plan.engine.launch(setup)

    def forget(self, instance_id: int) -> None:
        """Nothing was kept for it."""

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> Spilled:
        """Within this machine."""
        return self._pool.spill(host_slots, disk_slots)

    async def wait_for_room(self) -> bool:
        """This machine does not grow."""
        return False


def deal_cpus(cpus: list[int], num_instances: int) -> tuple[tuple[int, ...], ...]:
    """Even runs of processors; one each, reused in turn, when there are more instances."""
    share = len(cpus) // num_instances
    if share == 0:
        return tuple((cpus[i % len(cpus)],) for i in range(num_instances))
    return tuple(tuple(cpus[i * share : (i + 1) * share]) for i in range(num_instances))
