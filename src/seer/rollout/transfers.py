"""Who must wait for whom at the pool's slots.

The controller hands a slot out as soon as its old content is on its way elsewhere. So whoever
writes or reads slots first waits for the last operation on each of them.
"""

import asyncio
from collections.abc import Iterable

from seer.rollout.events import SpillObject
from seer.types import Tier

Place = tuple[Tier, int]


class Transfers:
    """The last operation on each slot."""

    def __init__(self) -> None:
        self._last: dict[Place, asyncio.Future[None]] = {}

    def pending(self, places: Iterable[Place]) -> list[asyncio.Future[None]]:
        """Operations on these slots that are not done."""
        found = {id(f): f for p in places if (f := self._last.get(p)) is not None and not f.done()}
        return list(found.values())

    def occupy(self, places: Iterable[Place]) -> asyncio.Future[None]:
        """Declare an operation on these slots; the caller resolves the future when it is done."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for place in places:
            self._last[place] = done
        return done


def places(tier: Tier, slots: Iterable[int]) -> list[Place]:
    """Slots of a tier."""
    return [(tier, slot) for slot in slots]


def spill_places(spill: SpillObject) -> list[Place]:
    """All slots that a spill reads or writes."""
    return (
        places(Tier.HOST, spill.host_slots)
        + places(Tier.DISK, spill.disk_slots)
        + places(Tier.REMOTE, spill.remote_slots)
    )
