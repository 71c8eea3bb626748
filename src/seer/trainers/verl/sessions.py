"""A rollout session for as long as somebody waits for responses.

verl's trainer updates weights when its rollout servers are idle. So a session never spans two
versions of the weights in a synchronous trainer; where it does, it ends with an error.
"""

import asyncio
from collections.abc import Callable

from seer.rollout.config import RolloutConfig
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.rollout.rollout import Rollout
from seer.types import SamplingParams


class Sessions:
    """One session after the other."""

    def __init__(self, make_config: Callable[[], RolloutConfig]) -> None:
        self._make_config = make_config
        self._session: _Session | None = None
        self.num_sessions = 0
        self.metrics: RolloutMetrics | None = None
        """Of the last session that has answered, so far as it has got."""

    async def generate(
        self, item: PromptItem, sampling: SamplingParams, group_size: int
    ) -> GroupResult:
        """The responses to a prompt. Raises as `Rollout.generate` does."""
        if self._session is None:
            self._session = _Session(self._make_config())
            self.num_sessions += 1
        session = self._session
        session.num_waiting += 1
        try:
            rollout = await asyncio.shield(session.rollout)
            [group] = await rollout.generate([item], group_size=group_size, sampling=sampling)
            self.metrics = rollout.metrics()
            return group
        finally:
            session.num_waiting -= 1
            if session.num_waiting == 0:
                session.is_idle.set()
                if self._session is session:
                    self._session = None


class _Session:
    """A rollout in a task of its own."""

    def __init__(self, config: RolloutConfig) -> None:
        self.num_waiting = 0
        self.is_idle = asyncio.Event()
        self.rollout: asyncio.Future[Rollout] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(config))

    async def _run(self, config: RolloutConfig) -> None:
        try:
            async with Rollout(config) as rollout:
                self.rollout.set_result(rollout)
                await self.is_idle.wait()
        except Exception as error:
            if self.rollout.done():
                raise
            self.rollout.set_exception(error)
