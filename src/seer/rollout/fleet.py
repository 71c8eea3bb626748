"""The instances of a session: launching, losing, launching again."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from seer.errors import EngineFailure, InstanceLost, InvalidInput
from seer.rollout.engine import Engine, InstanceSetup
from seer.types import EngineInfo, InstanceLoad, RequestId, WeightUpdate

logger = logging.getLogger(__name__)

RELAUNCH_TRIES = 3
"""Failures in a row after which an instance stays out."""


class Launcher(Protocol):
    """What starts instances: an engine's spec, or a site."""

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Start one instance. Raises EngineFailure or InvalidInput when it does not come up."""


@dataclass(slots=True)
class Placed:
    """An instance: the engine now behind its id."""

    setup: InstanceSetup
    kv_capacity_tokens: int
    engine: Engine | None = None
    """None while it is lost."""
    in_flight: set[RequestId] = field(default_factory=set)
    load: InstanceLoad | None = None
    num_failures: int = 0
    """Losses and failed launches since a chunk last ended here."""


class Fleet:
    """All instances, by id."""

    def __init__(
        self, launcher: Launcher, setups: Sequence[InstanceSetup], info: EngineInfo
    ) -> None:
        self._launcher = launcher
        self._info = info
        self._update: WeightUpdate | None = None
        self.next_id = max(s.instance_id for s in setups) + 1
        """Of an instance that is added; no number is given twice."""
        self.placed = {s.instance_id: Placed(s, info.kv_capacity_tokens) for s in setups}

    @property
    def weight_version(self) -> int:
        """Version of the weights that all engines have."""
        return self._update.version if self._update else 0

    @property
    def num_alive(self) -> int:
        """Instances with an engine."""
        return sum(p.engine is not None for p in self.placed.values())

    async def launch_all(self) -> None:
        """Start every instance. Raises what the first failing launch raises; none stays behind."""
        launches = [self._launcher.launch(p.setup) for p in self.placed.values()]
        results = await asyncio.gather(*launches, return_exceptions=True)
        errors = []
        for placed, result in zip(self.placed.values(), results, strict=True):
            if isinstance(result, BaseException):
                errors.append(result)
            else:
                placed.engine = result
        if errors:
            await self.close()
            raise errors[0]

    async def add(self, setup: InstanceSetup) -> None:
        """Start one more instance, with the current weights. Raises what its launch raises."""
        self.next_id = max(self.next_id, setup.instance_id + 1)
        engine = await self._launch_current(setup)
        self.placed[setup.instance_id] = Placed(setup, self._info.kv_capacity_tokens, engine)

    async def relaunch(self, instance_id: int) -> bool:
        """Start a lost instance again, with the current weights.

        False after repeated failures, and when it has been removed meanwhile.
        """
        placed = self.placed.get(instance_id)
        while placed is not None and placed.num_failures < RELAUNCH_TRIES:
            try:
                engine = await self._launch_current(placed.setup)
            except (EngineFailure, InvalidInput, ConnectionError) as error:
                placed.num_failures += 1
                logger.warning("instance %d does not come back: %s", instance_id, error)
                continue
            if self.placed.get(instance_id) is placed:
                placed.engine = engine
                return True
            await engine.close()
            break
        return False

    def lose(self, instance_id: int) -> None:
        """Let go of a lost instance's engine; the caller closes it."""
        placed = self.placed[instance_id]
        placed.engine = placed.load = None
        placed.in_flight.clear()
        placed.num_failures += 1

    async def update_weights(self, update: WeightUpdate) -> list[int]:
        """New weights on every instance alive; returns those that turn out to be lost.

        Instances on their way back get them too. Raises EngineFailure when one refuses them.
        """
        before, self._update = self._update, update
        alive = {i: p.engine for i, p in self.placed.items() if p.engine is not None}
        results = await asyncio.gather(
            *(engine.update_weights(update) for engine in alive.values()), return_exceptions=True
        )
        lost = [i for i, r in zip(alive, results, strict=True) if isinstance(r, InstanceLost)]
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, InstanceLost):
                self._update = before
                raise result
        return lost

    async def close(self) -> None:
        """Close every engine."""
        engines = [p.engine for p in self.placed.values() if p.engine is not None]
        for placed in self.placed.values():
            placed.engine = None
        await asyncio.gather(*(engine.close() for engine in engines))

    async def _launch_current(self, setup: InstanceSetup) -> Engine:
        engine = await self._launcher.launch(setup)
        loaded: WeightUpdate | None = None
        while self._update is not None and self._update is not loaded:
            loaded = self._update
            await engine.update_weights(loaded)
        return engine
