"""A step loop in a thread of its own behind the asyncio Engine protocol.

Everything asked of the engine becomes a command in one queue, taken between steps and in order;
so a KV move made before a chunk is done before that chunk gets blocks. Only the step thread touches
the model, the KV objects and the planner.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from seer.engines.serving.drafting import Drafter, NoDrafts
from seer.engines.serving.group_drafter import make_drafter
from seer.engines.serving.step_loop import StepLoop, StepOutput
from seer.engines.serving.step_model import StepModel
from seer.errors import EngineFailure, InstanceLost, SeerError
from seer.rollout.engine import InstanceSetup, OnProgress
from seer.types import (
    Chunk,
    ChunkResult,
    EngineInfo,
    KVMove,
    KVMoved,
    RequestId,
    WeightUpdate,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
_Future = asyncio.Future[ChunkResult]


@dataclass(slots=True)
class _Flight:
    """A chunk in flight: who waits for it."""

    future: _Future
    on_progress: OnProgress


class StepEngine:
    """One instance of a model in this process."""

    def __init__(self, info: EngineInfo, setup: InstanceSetup) -> None:
        self._info = info
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._flights: dict[RequestId, _Flight] = {}
        self._asked: set[asyncio.Future[Any]] = set()
        self._steps: StepLoop | None = None
        self._is_closing = False
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._serve, name="seer-steps", daemon=True)

    @classmethod
    async def start(
        cls,
        info: EngineInfo,
        setup: InstanceSetup,
        make_model: Callable[[], StepModel],
        prefill_tokens_per_step: int,
    ) -> Self:
        """Make the model on the step thread, and the drafter if the setup asks for one; start.

        Raises what `make_model` raises of SeerError.
        """
        engine = cls(info, setup)
        engine._thread.start()
        try:
            await engine._ask(partial(engine._build, make_model, prefill_tokens_per_step))
        except SeerError:
            await engine.close()
            raise
        return engine

    @property
    def info(self) -> EngineInfo:
        """Capacity and limits."""
        return self._info

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        """Generate one chunk."""
        self._check_open()
        if chunk.request_id in self._flights:
            raise EngineFailure(f"request {chunk.request_id} has a chunk in flight already")
        future: _Future = self._loop.create_future()
        flight = _Flight(future, on_progress)
        self._flights[chunk.request_id] = flight
        self._commands.put(partial(self._start_chunk, chunk))
        try:
            return await future
        finally:
            if self._flights.get(chunk.request_id) is flight:
                del self._flights[chunk.request_id]

    async def move_kv(self, move: KVMove) -> KVMoved:
        """Export or drop a KV object."""
        return await self._ask(lambda: self._need_steps().move(move))

    async def abort(self, request_id: RequestId) -> None:
        """Cut a chunk short."""
        await self._ask(lambda: self._deliver(self._need_steps().abort(request_id)))

    async def update_weights(self, update: WeightUpdate) -> None:
        """Replace the weights."""
        await self._ask(lambda: self._need_steps().update(update))

    async def close(self) -> None:
        """Stop stepping; chunks in flight end with InstanceLost."""
        if not self._is_closing:
            self._is_closing = True
            self._commands.put(lambda: None)
        await asyncio.to_thread(self._thread.join)
        closed = InstanceLost(self._setup.instance_id, "closed")
        for future in list(self._asked):
            _settle(future, None, closed)
        for request_id in list(self._flights):
            self._fail_flight(request_id, closed)

    async def _ask(self, work: Callable[[], T]) -> T:
        """Run `work` on the step thread, in order with everything else, and wait for it."""
        self._check_open()
        future: asyncio.Future[T] = self._loop.create_future()

        def command() -> None:
            try:
                self._post(_settle, future, work(), None)
            except SeerError as error:
                self._post(_settle, future, None, error)

        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        self._commands.put(command)
        return await future

    def _check_open(self) -> None:
        if self._is_closing:
            raise InstanceLost(self._setup.instance_id, "closed")
        if self._failure is not None:
            raise EngineFailure(self._failure)

    # ---------------------------------------------------------------- on the step thread

    def _serve(self) -> None:
        try:
            while not self._is_closing:
                self._take_commands()
                if self._steps is not None and self._steps.has_work and not self._is_closing:
                    self._deliver(self._steps.step())
        except Exception as error:  # the thread's edge: whoever waits must be told
            logger.exception("the step loop of instance %d failed", self._setup.instance_id)
            self._post(self._fail, f"{type(error).__name__}: {error}")
        finally:
            if self._steps is not None:
                self._steps.close()

    def _take_commands(self) -> None:
        """Carry out what has been asked; wait for the first one when there is nothing to step."""
        is_idle = self._steps is None or not self._steps.has_work
        while is_idle or not self._commands.empty():
            self._commands.get()()
            is_idle = False

    def _build(self, make_model: Callable[[], StepModel], prefill_tokens_per_step: int) -> None:
        model = make_model()
        self._steps = StepLoop(
            model,
            self._info,
            prefill_tokens_per_step,
            self._setup.pool,
            self._make_drafter(model),
        )

    def _make_drafter(self, model: StepModel) -> Drafter:
        config = self._setup.drafting
        if not config.is_on:
            return NoDrafts()
        step_time = model.step_time() if config.needs_step_time else config.step_time
        return make_drafter(config, self._info.vocab_size, step_time)

    def _need_steps(self) -> StepLoop:
        assert self._steps is not None  # noqa: S101 - built before `start` returned
        return self._steps

    def _start_chunk(self, chunk: Chunk) -> None:
        try:
            self._deliver(self._need_steps().start(chunk))
        except SeerError as error:
            self._post(self._fail_flight, chunk.request_id, error)

    def _deliver(self, output: StepOutput) -> None:
        if output.progress or output.results:
            self._post(self._report, output)

    def _post(self, call: Callable[..., None], *args: object) -> None:
        """Make a call on the event loop's thread."""
        self._loop.call_soon_threadsafe(call, *args)

    # ---------------------------------------------------------------- back on the event loop

    def _report(self, output: StepOutput) -> None:
        for progress in output.progress:
            if progress.request_id in self._flights:
                self._flights[progress.request_id].on_progress(progress)
        for result in output.results:
            if result.request_id in self._flights:
                _settle(self._flights.pop(result.request_id).future, result, None)

    def _fail(self, why: str) -> None:
        self._failure = why
        for future in list(self._asked):
            _settle(future, None, EngineFailure(why))
        for request_id in list(self._flights):
            self._fail_flight(request_id, EngineFailure(why))

    def _fail_flight(self, request_id: RequestId, error: SeerError) -> None:
        if request_id in self._flights:
            _settle(self._flights.pop(request_id).future, None, error)


def _settle(future: asyncio.Future[Any], value: object, error: SeerError | None) -> None:
    """Resolve a future whose waiter may have gone."""
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
