"""The draft servers of a session as actors; each is started again, where it was, when it dies."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ray.exceptions import RayError

from seer.cluster.actors.placing import Place
from seer.cluster.actors.roles import DraftServerActor
from seer.errors import EngineFailure

logger = logging.getLogger(__name__)

_START_LIMIT_S = 60.0


@asynccontextmanager
async def draft_servers(
    places: Sequence[Place], vocab_size: int
) -> AsyncIterator[list["DraftServerOnRay"]]:
    """One server in each place. Raises EngineFailure when one does not come up."""
    servers = [DraftServerOnRay(place, vocab_size) for place in places]
    await asyncio.gather(*(server.start() for server in servers))
    watchers = [asyncio.create_task(server.watch()) for server in servers]
    try:
        yield servers
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)


class DraftServerOnRay:
    """One draft server."""

    actor: Any
    """Handle of the actor that serves now."""

    def __init__(self, place: Place, vocab_size: int) -> None:
        self._place = place
        self._vocab_size = vocab_size
        self.address: str | None = None
        """Where clients reach it, also after a restart; None before its start."""

    async def start(self) -> None:
        """Create the actor and let it listen. Raises EngineFailure when it does not come up."""
        self.actor = self._place.create(DraftServerActor)
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                self.address = await self.actor.bind.remote(self.address)
        except (RayError, TimeoutError) as error:
            why = " ".join(str(error).split()) or f"not within {_START_LIMIT_S:g} s"
            raise EngineFailure(f"a draft server did not start: {why}") from error

    async def watch(self) -> None:
        """Serve; after a death, again at the same address, which the instances know."""
        while True:
            try:
                await self.actor.serve.remote(self._vocab_size)
            except RayError:
                logger.warning("the draft server at %s has died; starting another", self.address)
            try:
                await self.start()
            except EngineFailure as error:
                logger.warning("drafts go on without the server at %s: %s", self.address, error)
                return
