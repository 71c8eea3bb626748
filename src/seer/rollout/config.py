"""Settings of a rollout session."""

import os
from pathlib import Path

import msgspec

from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.engine import EngineSpec
from seer.scheduling.placement import PlacementConfig
from seer.types import InstanceSetup, PoolAddress


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

    def setups(self, pool: PoolAddress | None) -> list[InstanceSetup]:
        """What each instance is told at launch."""
        cpus = self.cpus or _deal_cpus(sorted(os.sched_getaffinity(0)), self.num_instances)
        return [
            InstanceSetup(instance_id=i, pool=pool, cpus=cpus[i]) for i in range(self.num_instances)
        ]


def _deal_cpus(cpus: list[int], num_instances: int) -> tuple[tuple[int, ...], ...]:
    """Even runs of processors; one each, reused in turn, when there are more instances."""
    share = len(cpus) // num_instances
    if share == 0:
        return tuple((cpus[i % len(cpus)],) for i in range(num_instances))
    return tuple(tuple(cpus[i * share : (i + 1) * share]) for i in range(num_instances))
