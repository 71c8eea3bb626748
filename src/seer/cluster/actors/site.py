"""A session's place on a Ray cluster."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import ray

from seer.cluster.actors.actor_process import ActorProcess
from seer.cluster.actors.connection import all_resources, connected, free_resources
from seer.cluster.actors.draft_servers import DraftServerOnRay, draft_servers
from seer.cluster.actors.placing import Place, Reservation
from seer.cluster.actors.pool_nodes import make_pool
from seer.cluster.demand import SERVICE_CPUS, Resources, check_demand
from seer.cluster.ray_cluster import RayCluster
from seer.drafting.sharded_server import SEPARATOR
from seer.engines.channel import Channel
from seer.engines.process import ProcessSpec
from seer.errors import EngineFailure, InvalidInput, SeerError
from seer.kvpool.pool import PoolOwner, Spilled
from seer.kvpool.pool_node import is_pool_nodes
from seer.rollout.engine import Engine, InstanceSetup
from seer.rollout.site import Site, SitePlan
from seer.types import PoolAddress

_FREEING_LIMIT_S = 10.0
_FREEING_POLL_S = 0.2
_SERVICE = Resources(cpus=SERVICE_CPUS)


@asynccontextmanager
async def open_site(cluster: RayCluster, plan: SitePlan) -> AsyncIterator[Site]:
    """See `RayCluster.open`."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(connected(cluster.address))
        num_most = max(plan.num_instances, cluster.max_instances or 0)
        num_servers = cluster.draft_servers if plan.wants_draft_server and num_most > 1 else 0
        await _check_room(cluster, plan, num_servers + (cluster.pool_nodes or 0))
        site = _RaySite(cluster, plan, ray.util.get_node_ip_address())
        stack.callback(site.remove_reservations)
        await site.reserve_instances()
        places = await site.reserve(num_servers)
        if places:
            site.draft_servers = await stack.enter_async_context(
                draft_servers(places, plan.info.vocab_size)
            )
        places = await site.reserve(site.num_pool_nodes)
        site.owner = await stack.enter_async_context(
            make_pool(plan, places, is_shared=site.is_all_here)
        )
        yield site


async def _check_room(cluster: RayCluster, plan: SitePlan, num_services: int) -> None:
    """Raise InvalidInput unless all could be placed.

    Ray hears some time later of what a session that has just ended gave back: what would fit into
    the whole cluster gets a few seconds to fit into what is free.
    """
    check_demand(plan.num_instances, cluster.instance, num_services, all_resources())
    try:
        async with asyncio.timeout(_FREEING_LIMIT_S):
            while True:
                with contextlib.suppress(InvalidInput):
                    nodes = free_resources()
                    return check_demand(plan.num_instances, cluster.instance, num_services, nodes)
                await asyncio.sleep(_FREEING_POLL_S)
    except TimeoutError:
        check_demand(plan.num_instances, cluster.instance, num_services, free_resources())


class _RaySite:
    """Places of instances by number, and what every instance is told."""

    owner: PoolOwner
    """Set while the site is opened, once it is known where the instances lie."""

    def __init__(self, cluster: RayCluster, plan: SitePlan, host: str) -> None:
        self._cluster = cluster
        self._plan = plan
        self._host = host
        self._node_id = ray.get_runtime_context().get_node_id()
        engine = plan.engine
        self._hosting = engine if isinstance(engine, ProcessSpec) else ProcessSpec(inner=engine)
        self._reservations: list[Reservation] = []
        self._places: dict[int, Place] = {}
        self._spare: list[Place] = []
        self.draft_servers: list[DraftServerOnRay] = []

    # ---------------------------------------------------------------- opening

    async def reserve_instances(self) -> None:
        """Room for the instances that the session starts with, all at once."""
        count = self._plan.num_instances
        places = await self._reserve([self._cluster.instance] * count)
        self._places = dict(enumerate(places))

    async def reserve(self, num_services: int) -> list[Place]:
        """Room for draft servers or pool nodes."""
        return await self._reserve([_SERVICE] * num_services) if num_services else []

    @property
    def is_all_here(self) -> bool:
        """Whether every instance lies on this process's node."""
        return all(place.node_id == self._node_id for place in self._places.values())

    @property
    def num_pool_nodes(self) -> int:
        """Pool nodes to start."""
        if self._cluster.pool_nodes is not None or self._plan.pool.host_bytes == 0:
            return self._cluster.pool_nodes or 0
        return 0 if self.is_all_here or self._plan.pool.remote is not None else 1

    def remove_reservations(self) -> None:
        """Give all room back."""
        for reservation in self._reservations:
            reservation.remove()

    # ---------------------------------------------------------------- the Site

    @property
    def pool(self) -> PoolAddress:
        """Files of this machine, pool nodes, a remote store, or several of them."""
        return self.owner.address

    def setup(self, instance_id: int) -> InstanceSetup:
        """Without processors: Ray says how many threads an actor has, not which processors."""
        drafting = self._plan.drafting
        own = SEPARATOR.join(server.address or "" for server in self.draft_servers)
        server = drafting.server or own or None
        return InstanceSetup(
            instance_id=instance_id,
            pool=self.owner.address,
            drafting=msgspec.structs.replace(drafting, server=server),
        )

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Start an actor in the instance's place, which it keeps from launch to launch."""
        limit_s = self._hosting.launch_limit_s
        place = await self._place(setup.instance_id)
        if place.node_id != self._node_id:
            setup = msgspec.structs.replace(setup, pool=_beyond_this_node(setup.pool))
        channel = Channel(f"tcp://{self._host}:*")
        try:
            hello = self._hosting.hello(setup, channel.address)
            actor = await ActorProcess.start(place, hello, limit_s)
        except (SeerError, asyncio.CancelledError):
            channel.close()
            raise
        return await self._hosting.engine_in(actor, channel, setup.instance_id)

    def forget(self, instance_id: int) -> None:
        """Its room is for the next instance that is added."""
        place = self._places.pop(instance_id, None)
        if place is not None:
            self._spare.append(place)

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> Spilled:
        """Within this machine, or from it to a remote store."""
        return self.owner.spill(host_slots, disk_slots)

    async def wait_for_room(self) -> bool:
        """Ask the cluster for room for one more instance (an autoscaler hears of it too)."""
        if len(self._places) + len(self._spare) >= (self._cluster.max_instances or 0):
            return False
        reservation = Reservation([self._cluster.instance], self._cluster.strategy)
        self._reservations.append(reservation)
        await reservation.ready()
        self._spare += reservation.places
        return True

    # ---------------------------------------------------------------- places

    async def _place(self, instance_id: int) -> Place:
        if instance_id not in self._places:
            if not self._spare:
                self._spare += await self._reserve([self._cluster.instance])
            self._places[instance_id] = self._spare.pop()
        return self._places[instance_id]

    async def _reserve(self, bundles: list[Resources]) -> list[Place]:
        limit_s = self._cluster.placement_limit_s
        try:
            reservation = await Reservation.wait_for(bundles, self._cluster.strategy, limit_s)
        except TimeoutError:
            free = "; ".join(str(node) for node in free_resources())
            raise EngineFailure(
                f"Ray did not place {len(bundles)} x {bundles[0]} ({self._cluster.strategy}) "
                f"within {limit_s:g} s; free now, by node: {free}"
            ) from None
        self._reservations.append(reservation)
        return reservation.places


def _beyond_this_node(pool: PoolAddress | None) -> PoolAddress | None:
    """What another node reaches of a pool: not this one's shared memory and disk."""
    if pool is None or not pool.host_path or is_pool_nodes(pool.host_path):
        return pool
    return msgspec.structs.replace(
        pool, host_path="", num_host_slots=0, disk_path="", num_disk_slots=0
    )
