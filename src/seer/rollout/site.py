"""Where a session's processes run: the seam between the rollout and this machine, or a cluster."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from seer.drafting.config import DraftingConfig
from seer.kvpool.pool import PoolConfig, Spilled
from seer.rollout.engine import Engine, EngineSpec, InstanceSetup
from seer.types import EngineInfo, PoolAddress


class SitePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a session wants to run."""

    engine: EngineSpec
    info: EngineInfo
    num_instances: int
    """Instances that the session starts with."""
    pool: PoolConfig
    drafting: DraftingConfig
    cpus: tuple[tuple[int, ...], ...] | None = None
    """See RolloutConfig."""

    @property
    def wants_draft_server(self) -> bool:
        """Whether several instances would have something to tell each other, and no server yet."""
        return self.drafting.is_on and self.drafting.server is None


class Site(Protocol):
    """Where the processes of one session run: its KV pool, its draft servers, its instances."""

    @property
    def pool(self) -> PoolAddress:
        """The KV pool that the controller keeps account of."""

    def setup(self, instance_id: int) -> InstanceSetup:
        """What an instance of that number is told at launch."""

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Start an instance, again under the same number after a loss.

        Raises EngineFailure or InvalidInput when it does not come up.
        """

    def forget(self, instance_id: int) -> None:
        """An instance has left for good."""

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> Spilled:
        """Copy slots of the pool from memory to disk. Blocks: call it in a thread."""

    async def wait_for_room(self) -> bool:
        """Wait until another instance could be launched; False: there never will be room."""


class SiteSpec(Protocol):
    """A chosen place and its settings, before anything is started."""

    def open(self, plan: SitePlan) -> AbstractAsyncContextManager[Site]:
        """Prepare it for one session; everything ends when the context is left.

        Raises InvalidInput when the plan does not fit there, EngineFailure when something that it
        needs does not come up.
        """
