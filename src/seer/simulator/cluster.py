"""The machines of a simulated rollout."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from seer.costmodel.step_time import StepTime
from seer.errors import InvalidInput
from seer.rollout.controller_config import check_fits
from seer.simulator.workload import Workload
from seer.types import EngineInfo

SIMULATED_MODEL = "simulated"
"""`EngineInfo.model` of simulated instances: what tells their traces from real ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Equal instances and the KV pool that they share. Raises InvalidInput on a bad value."""

    num_instances: int
    kv_tokens: int
    """Tokens whose KV fits on one instance."""
    step_time: StepTime
    kv_bytes_per_token: float
    max_running: int = 1024
    """Requests that an instance runs at once."""
    block_size: int = 64
    """Tokens a KV block."""
    pool_host_tokens: int = 0
    """Tokens whose KV fits into the pool's host memory; 0: no pool."""
    pool_disk_tokens: int = 0
    """Tokens whose KV fits on the pool's disk, behind its host memory."""
    transfer_bytes_per_s: float = 50e9
    """Between one instance and the pool's host memory, each way."""
    disk_bytes_per_s: float = 5e9
    takes_between_steps: bool = False
    """Whether chunks join, and KV is copied, between two steps and by who makes them, as the local
    engine does it; else at once, and beside the steps. A request that is given its next chunk where
    and when its last one ended goes on without a pause, as that engine does not wait for it."""
    handover_s: float = 0.0
    """From the decision to start a chunk until it has reached its instance."""
    slowdown: Mapping[int, float] = field(default_factory=dict)
    """How many times longer a step takes on some instances."""

    def __post_init__(self) -> None:
        for name in ("num_instances", "kv_tokens", "max_running", "block_size"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, getattr(self, name), "allowed: an integer >= 1")
        for name in ("pool_host_tokens", "pool_disk_tokens"):
            if getattr(self, name) < 0:
                raise InvalidInput(name, getattr(self, name), "allowed: an integer >= 0")
        for name in ("kv_bytes_per_token", "transfer_bytes_per_s", "disk_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise InvalidInput(name, getattr(self, name), "allowed: a number > 0")
        if not self.handover_s >= 0:
            raise InvalidInput("handover_s", self.handover_s, "allowed: a number >= 0")
        for instance_id, factor in self.slowdown.items():
            if not (0 <= instance_id < self.num_instances and factor > 0):
                shown = f"{instance_id}: {factor}"
                raise InvalidInput("slowdown", shown, "allowed: instance: factor > 0")

    def info(self, max_context_tokens: int, max_running: int | None = None) -> EngineInfo:
        """One instance, as the controller is told; `max_running` instead of the cluster's."""
        return EngineInfo(
            model=SIMULATED_MODEL,
            block_size=self.block_size,
            num_blocks=self.kv_tokens // self.block_size,
            block_bytes=max(1, round(self.kv_bytes_per_token * self.block_size)),
            max_running_requests=max_running or self.max_running,
            max_context_tokens=max_context_tokens,
            vocab_size=1,
        )

    def check_holds(self, workload: Workload) -> None:
        """Raise InvalidInput unless one instance holds each request up to its limit."""
        info = self.info(workload.max_context_tokens)
        for group in workload.groups:
            check_fits(group, info)
