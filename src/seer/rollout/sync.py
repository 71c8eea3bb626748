"""The rollout from code without an event loop: scripts, notebooks, trainers."""

import asyncio
import threading
from collections.abc import Awaitable, Iterator, Sequence
from typing import Self, TypeVar

from seer.rollout.config import RolloutConfig
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import Prompt
from seer.rollout.results import GroupResult
from seer.rollout.rollout import OnProgress, Rollout
from seer.types import SamplingParams, WeightUpdate

T = TypeVar("T")


class SyncRollout:
    """`Rollout` behind plain calls, on an event loop in a thread of its own.

    >>> with SyncRollout(RolloutConfig(engine=spec)) as rollout:
    ...     groups = rollout.generate(prompts, group_size=8, sampling=sampling)
    """

    def __init__(self, config: RolloutConfig) -> None:
        self._rollout = Rollout(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="seer-rollout", daemon=True
        )
        self._session: asyncio.Future[None] | None = None
        self._closing = asyncio.Event()

    def __enter__(self) -> Self:
        """Launch the instances. Raises as `Rollout` does."""
        self._thread.start()
        try:
            self._wait(self._open())
        except BaseException:
            self._stop_loop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Cancel what is left and close everything."""
        try:
            self._wait(self._close())
        finally:
            self._stop_loop()

    def stream(
        self,
        prompts: Sequence[Prompt],
        *,
        group_size: int,
        sampling: SamplingParams,
        on_progress: OnProgress | None = None,
    ) -> Iterator[GroupResult]:
        """Groups as they finish; leaving the loop early cancels the rest.

        `on_progress` is called on the rollout's thread.
        """
        groups = self._rollout.stream(
            prompts, group_size=group_size, sampling=sampling, on_progress=on_progress
        )
        try:
            while True:
                try:
                    yield self._wait(groups.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self._wait(groups.aclose())

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        group_size: int,
        sampling: SamplingParams,
        on_progress: OnProgress | None = None,
    ) -> list[GroupResult]:
        """All groups, in the order of the prompts."""
        return self._wait(
            self._rollout.generate(
                prompts, group_size=group_size, sampling=sampling, on_progress=on_progress
            )
        )

    def cancel(self) -> None:
        """Cancel every call in progress, from any thread."""
        self._loop.call_soon_threadsafe(self._rollout.cancel)

    def metrics(self) -> RolloutMetrics:
        """Figures of the session so far."""
        return self._rollout.metrics()

    def update_weights(self, update: WeightUpdate) -> None:
        """Give all instances new weights."""
        self._wait(self._rollout.update_weights(update))

    def _wait(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()

    async def _open(self) -> None:
        """Enter the session in a task that also leaves it, as its task group demands."""
        opened: asyncio.Future[None] = self._loop.create_future()

        async def session() -> None:
            try:
                async with self._rollout:
                    opened.set_result(None)
                    await self._closing.wait()
            except BaseException as error:
                if opened.done():
                    raise
                opened.set_exception(error)

        self._session = asyncio.ensure_future(session())
        await opened

    async def _close(self) -> None:
        assert self._session is not None  # noqa: S101 - opened before it is closed
        self._closing.set()
        await self._session

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
