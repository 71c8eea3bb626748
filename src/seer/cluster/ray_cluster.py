"""A Ray cluster as the place of a session. Ray itself is imported only when it is opened."""

import importlib.util
from contextlib import AbstractAsyncContextManager

import msgspec

from seer.cluster.demand import Resources
from seer.errors import InvalidInput
from seer.rollout.site import Site, SitePlan

INSTALL_RAY = "pip install 'seer-rl[ray]'"


class RayCluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Instances, draft servers and pool nodes as Ray actors. Raises InvalidInput on a bad value."""

    address: str | None = None
    """`host:port` of a running cluster; None starts a Ray of its own on this machine, unless this
    process is connected to one already."""
    instance_cpus: float = 1.0
    """Processors that Ray reserves for an instance; its number of threads, too."""
    instance_gpus: float = 0.0
    strategy: str = "PACK"
    """Over the nodes, as Ray's placement groups have it: PACK, SPREAD or STRICT_SPREAD."""
    draft_servers: int = 1
    """Draft servers over which the groups are sharded, where a rollout needs any."""
    pool_nodes: int | None = None
    """Actors whose memory is the KV pool. None: shared memory where all instances are on this
    machine, else one (none where the pool has a remote store)."""
    max_instances: int | None = None
    """Take in further instances up to this number as the cluster gains room; None: none."""
    placement_limit_s: float = 60.0
    """How long placement groups may take to come about."""

    def __post_init__(self) -> None:
        for field, least in (("instance_cpus", 0.001), ("instance_gpus", 0)):
            if not getattr(self, field) >= least:
                raise InvalidInput(field, getattr(self, field), f"allowed: a number >= {least}")
        if self.strategy not in {"PACK", "SPREAD", "STRICT_SPREAD"}:
            raise InvalidInput("strategy", self.strategy, "allowed: PACK, SPREAD, STRICT_SPREAD")
        if self.draft_servers < 1:
            raise InvalidInput("draft_servers", self.draft_servers, "allowed: an integer >= 1")
        if self.pool_nodes is not None and self.pool_nodes < 0:
            raise InvalidInput("pool_nodes", self.pool_nodes, "allowed: an integer >= 0")
        if self.max_instances is not None and self.max_instances < 1:
            raise InvalidInput("max_instances", self.max_instances, "allowed: an integer >= 1")

    @property
    def instance(self) -> Resources:
        """What one instance takes."""
        return Resources(cpus=self.instance_cpus, gpus=self.instance_gpus)

    def open(self, plan: SitePlan) -> AbstractAsyncContextManager[Site]:
        """Connect to the cluster and place everything but the instances' engines.

        Raises InvalidInput without Ray, when the address does not answer, and when the cluster has
        too little; EngineFailure when a draft server or a pool node does not come up.
        """
        require_ray()
        from seer.cluster.actors.site import open_site  # noqa: PLC0415 - imports Ray, an extra

        return open_site(self, plan)


def require_ray() -> None:
    """Raise InvalidInput, saying how to install it, unless Ray is there."""
    if importlib.util.find_spec("ray") is None:
        raise InvalidInput("cluster", "ray", f"Ray is not installed: {INSTALL_RAY}")
