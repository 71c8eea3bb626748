"""Settings of a rollout session."""

import os
from pathlib import Path

import msgspec

from seer.drafting.config import DraftingConfig
from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.engine import EngineSpec, InstanceSetup
from seer.scheduling.placement import PlacementConfig
from seer.types import PoolAddress


class RolloutConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What `Rollout` runs and how. Raises InvalidInput on a bad value."""

    engine: EngineSpec
    """Usually ProcessSpec(inner=LocalSpec(model=...)): each instance a process of its own."""
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
        )

    @property
    def needs_draft_server(self) -> bool:
        """Whether instances have something to tell each other and no server is named for it."""
        drafting = self.drafting
        return drafting.is_on and drafting.server is None and self.num_instances > 1

    def setups(
        self, pool: PoolAddress | None, draft_server: str | None = None
    ) -> list[InstanceSetup]:
        """What each instance is told at launch; `draft_server` where the rollout has its own."""
        cpus = self.cpus or _deal_cpus(sorted(os.sched_getaffinity(0)), self.num_instances)
        drafting = msgspec.structs.replace(
            self.drafting, server=self.drafting.server or draft_server
        )
        return [
            InstanceSetup(instance_id=i, pool=pool, drafting=drafting, cpus=cpus[i])
            for i in range(self.num_instances)
        ]


def _deal_cpus(cpus: list[int], num_instances: int) -> tuple[tuple[int, ...], ...]:
    """Even runs of processors; one each, reused in turn, when there are more instances."""
    share = len(cpus) // num_instances
    if share == 0:
        return tuple((cpus[i % len(cpus)],) for i in range(num_instances))
    return tuple(tuple(cpus[i * share : (i + 1) * share]) for i in range(num_instances))
