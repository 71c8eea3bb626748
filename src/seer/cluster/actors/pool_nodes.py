"""The KV pool of a session on a cluster: shared memory, or actors that lend their nodes' memory."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
from ray.exceptions import RayError

from seer.cluster.actors.placing import Place
from seer.cluster.actors.roles import PoolNodeActor
from seer.errors import EngineFailure, InvalidInput
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.kvpool.pool_node import SEPARATOR
from seer.kvpool.slots import slot_bytes
from seer.rollout.site import SitePlan
from seer.types import PoolAddress

logger = logging.getLogger(__name__)

_START_LIMIT_S = 120.0
_NO_MEMORY = PoolConfig(host_bytes=0)


@asynccontextmanager
async def make_pool(
    plan: SitePlan, places: Sequence[Place], *, is_shared: bool
) -> AsyncIterator[PoolOwner]:
    """The pool's owner: of files of this machine if `is_shared`, of one pool node a place else.

    Pool nodes share `host_bytes` evenly and have no disk tier. A node that dies is not replaced:
    its slots read as missing. Raises InvalidInput or EngineFailure when there is no room.
    """
    config, block_bytes = plan.pool, plan.info.block_bytes
    if not places and not is_shared:
        config = msgspec.structs.replace(config, host_bytes=0, disk_bytes=0)
        if config.remote is None and plan.pool.host_bytes:
            logger.warning("no pool nodes: KV that leaves an instance is computed again")
    if not places:
        owner = PoolOwner.create(config, block_bytes)
    else:
        owner = PoolOwner(await _start(config, places, block_bytes), None, None)
    try:
        yield owner
    finally:
        owner.close()


async def _start(config: PoolConfig, places: Sequence[Place], block_bytes: int) -> PoolAddress:
    if config.disk_bytes or config.remote is not None:
        field, value = ("disk_bytes", config.disk_bytes) if config.disk_bytes else ("pool", "")
        allowed = "allowed: host memory alone with pool nodes"
        raise InvalidInput(field, value or config.remote, allowed)
    share = config.host_bytes // slot_bytes(block_bytes) // len(places)
    if share == 0:
        allowed = f"allowed: at least {slot_bytes(block_bytes)} for each of {len(places)} nodes"
        raise InvalidInput("host_bytes", config.host_bytes, allowed)
    addresses = await asyncio.gather(*(_bound(place, block_bytes, share) for place in places))
    return PoolAddress(
        host_path=SEPARATOR.join(addresses),
        num_host_slots=share * len(places),
        disk_path="",
        num_disk_slots=0,
        payload_bytes=block_bytes,
    )


async def _bound(place: Place, block_bytes: int, num_slots: int) -> str:
    """Start a pool node; it lives until its place is given back."""
    actor = place.create(PoolNodeActor, block_bytes, num_slots)
    try:
        async with asyncio.timeout(_START_LIMIT_S):
            address: str = await actor.bind.remote()
    except (RayError, TimeoutError) as error:
        why = " ".join(str(error).split()) or f"not within {_START_LIMIT_S:g} s"
        raise EngineFailure(f"a pool node did not start: {why}") from error
    actor.serve.remote()
    return address
