"""Settings of a rollout session."""

from pathlib import Path

import msgspec

from seer.drafting.config import DraftingConfig
from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.engine import EngineSpec
from seer.rollout.local_site import ThisMachine
from seer.rollout.site import SitePlan, SiteSpec
from seer.scheduling.placement import PlacementConfig
from seer.types import EngineInfo, PoolAddress


class RolloutConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What `Rollout` runs and how. Raises InvalidInput on a bad value."""

    engine: EngineSpec
    """Usually ProcessSpec(inner=LocalSpec(model=...)): each instance a process of its own."""
    site: SiteSpec = ThisMachine()
    """Where the processes run; on a cluster RayCluster."""
    num_instances: int = 2
    policy: str = "divided"
    chunk_size: int | None = 128
    """Tokens a chunk; None runs each request in one. Static policies never divide."""
    placement: PlacementConfig = PlacementConfig()
    pool: PoolConfig = PoolConfig()
    drafting: DraftingConfig = DraftingConfig()
    restart_instances: bool = True
    """Start a lost instance again; its requests go on elsewhere meanwhile."""
    trace_path: Path | None = None
    """File to write the trace to."""
    cpus: tuple[tuple[int, ...], ...] | None = None
    """Processors of each instance; None deals this process's own out evenly."""

    def __post_init__(self) -> None:
        if self.num_instances < 1:
            raise InvalidInput("num_instances", self.num_instances, "allowed: an integer >= 1")
        if self.cpus is not None and len(self.cpus) != self.num_instances:
            allowed = f"allowed: one tuple for each of {self.num_instances} instances"
            raise InvalidInput("cpus", self.cpus, allowed)
        self.controller_config(None)

    def controller_config(self, pool: PoolAddress | None) -> ControllerConfig:
        """The part that decisions depend on."""
        return ControllerConfig(
            policy=self.policy,
            chunk_size=self.chunk_size,
            placement=self.placement,
            num_host_slots=pool.num_host_slots if pool else 0,
            num_disk_slots=pool.num_disk_slots if pool else 0,
            num_remote_slots=pool.num_remote_slots if pool else 0,
        )

    def plan(self, info: EngineInfo) -> SitePlan:
        """What is to run, for the site."""
        return SitePlan(
            engine=self.engine,
            info=info,
            num_instances=self.num_instances,
            pool=self.pool,
            drafting=self.drafting,
            cpus=self.cpus,
        )
