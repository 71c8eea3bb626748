"""This process's connection to Ray."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import ray

from seer.cluster.demand import Resources
from seer.errors import EngineFailure, InvalidInput

ADDRESS_VARIABLE = "RAY_ADDRESS"
_ANSWER_LIMIT_S = 5.0
_OBJECT_STORE_BYTES = 80 * 2**20
"""Of a Ray that we start: near the least that Ray takes, as no tokens and no KV go there."""


@asynccontextmanager
async def connected(address: str | None) -> AsyncIterator[None]:
    """Within the context this process is connected to Ray.

    A connection that was there before is used as it is, and stays. Raises InvalidInput for an
    address that does not answer, EngineFailure when Ray does not start here.
    """
    if ray.is_initialized():
        current = ray.get_runtime_context().gcs_address
        if address not in {None, current}:
            raise InvalidInput("ray_address", address, f"this process is connected to {current}")
        yield
        return
    address = address or os.environ.get(ADDRESS_VARIABLE)
    if address is not None:
        check_answers(address)
    await asyncio.to_thread(_connect, address)
    try:
        yield
    finally:
        await asyncio.to_thread(ray.shutdown)


def check_answers(address: str) -> None:
    """Raise InvalidInput unless something listens at `host:port`.

    Ray itself would try for minutes and then end the process.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        allowed = "allowed: host:port of the cluster's head node, as `ray start --head` prints it"
        raise InvalidInput("ray_address", address, allowed)
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_LIMIT_S).close()
    except (OSError, OverflowError) as error:
        allowed = f"no Ray cluster answers there ({error}); `seer cluster status` shows more"
        raise InvalidInput("ray_address", address, allowed) from error


def free_resources() -> list[Resources]:
    """What is free on each node that is alive."""
    per_node = ray._private.state.available_resources_per_node()  # noqa: SLF001 - nothing public
    alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    return [
        Resources(cpus=found.get("CPU", 0.0), gpus=found.get("GPU", 0.0))
        for found in (per_node.get(node_id, {}) for node_id in alive)
    ]


def all_resources() -> list[Resources]:
    """What each node that is alive has in all."""
    return [
        Resources(cpus=node["Resources"].get("CPU", 0.0), gpus=node["Resources"].get("GPU", 0.0))
        for node in ray.nodes()
        if node["Alive"]
    ]


def _connect(address: str | None) -> None:
    try:
        if address is not None:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        else:
            ray.init(
                include_dashboard=False,
                log_to_driver=False,
                configure_logging=False,
                object_store_memory=_OBJECT_STORE_BYTES,
            )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        if address is not None:
            raise InvalidInput("ray_address", address, f"cannot be used: {error}") from error
        raise EngineFailure(f"Ray does not start on this machine: {error}") from error
