"""Placement groups: where actors go."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import ray
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from seer.cluster.demand import Resources

_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """One bundle of a placement group: room for one actor at a time."""

    group: PlacementGroup
    index: int
    resources: Resources

    @property
    def node_id(self) -> str:
        """The node on which it lies; "" between the death of that node and its move."""
        table: dict[str, Any] = placement_group_table(self.group)
        return str(table["bundles_to_node_id"].get(self.index, ""))

    def create(self, role: type, *arguments: object) -> Any:
        """Create an actor there, of a class that the nodes can import; returns its handle."""
        strategy = PlacementGroupSchedulingStrategy(self.group, self.index)
        actor_class = ray.remote(
            num_cpus=self.resources.cpus,
            num_gpus=self.resources.gpus,
            scheduling_strategy=strategy,
        )(role)
        return actor_class.remote(*arguments)


class Reservation:
    """A placement group of a session."""

    def __init__(self, bundles: Sequence[Resources], strategy: str) -> None:
        self._group = placement_group([each.bundle for each in bundles], strategy=strategy)
        self.places = [Place(self._group, i, each) for i, each in enumerate(bundles)]

    @classmethod
    async def wait_for(cls, bundles: Sequence[Resources], strategy: str, limit_s: float) -> Self:
        """Reserve; raises TimeoutError, with nothing reserved, when it takes too long."""
        reservation = cls(bundles, strategy)
        try:
            async with asyncio.timeout(limit_s):
                await reservation.ready()
        except TimeoutError:
            reservation.remove()
            raise
        return reservation

    async def ready(self) -> None:
        """Wait until all bundles are reserved."""
        is_ready = False
        while not is_ready:
            asked = asyncio.ensure_future(asyncio.to_thread(self._group.wait, _POLL_S))
            try:
                is_ready = await asyncio.shield(asked)
            except asyncio.CancelledError:
                await asyncio.wait({asked})  # Ray must not be shut down under the thread
                raise

    def remove(self) -> None:
        """Give the room back; actors in it are killed."""
        remove_placement_group(self._group)
