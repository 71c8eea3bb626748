"""An actor that hosts an engine, as the owner of the engine sees it."""

import asyncio
from typing import Any, Self

import ray
from ray.exceptions import RayError

from seer.cluster.actors.placing import Place
from seer.cluster.actors.roles import InstanceActor, Whereabouts
from seer.errors import EngineFailure


class ActorProcess:
    """The HostProcess (engines/process_engine.py) of an engine in a Ray actor."""

    def __init__(self, actor: Any, where: Whereabouts, served: Any) -> None:
        self._actor = actor
        self._where = where
        self._served = served

    @classmethod
    async def start(cls, place: Place, hello: bytes, limit_s: float) -> Self:
        """Start an actor that hosts what `hello` names. Raises EngineFailure if none comes up."""
        actor = place.create(InstanceActor)
        where = await located(actor, limit_s)
        return cls(actor, where, actor.serve.remote(hello))

    async def wait(self) -> str:
        """Wait for the end of the actor or of what it hosts; says how it came about."""
        how = "ended"
        try:
            await self._served
        except RayError as error:
            how = f"died: {' '.join(str(error).split())[:500]}"
        return f"actor on {self._where.host} (process {self._where.pid}) {how}"

    def kill(self) -> None:
        """End the actor by force."""
        if ray.is_initialized():
            ray.kill(self._actor)

    def release(self) -> None:
        """Ray keeps nothing of a dead actor that concerns us."""

    @property
    def pid(self) -> int:
        """Process id on the actor's node."""
        return self._where.pid

    @property
    def node_id(self) -> str:
        """The node on which it runs."""
        return self._where.node_id


async def located(actor: Any, limit_s: float) -> Whereabouts:
    """Where an actor has come up. Raises EngineFailure when it does not; no other try is left."""
    try:
        async with asyncio.timeout(limit_s):
            where: Whereabouts = await actor.where.remote()
    except (RayError, TimeoutError) as error:
        ray.kill(actor)
        why = " ".join(str(error).split()) or f"not within {limit_s:g} s"
        raise EngineFailure(f"an actor did not start: {why}") from error
    except asyncio.CancelledError:
        ray.kill(actor)
        raise
    return where
