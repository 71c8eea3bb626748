"""The owner's side of a hosted engine: calls out, answers in, and the child's life.

One task supervises: it receives reports, listens for heartbeats and waits for the process to end.
Whatever ends it, every call in flight gets an error then; none is left waiting.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from seer.engines import messages
from seer.engines.channel import Channel
from seer.errors import EngineFailure, InstanceLost, SeerError
from seer.rollout.engine import OnProgress
from seer.types import (
    Chunk,
    ChunkProgress,
    ChunkResult,
    EngineInfo,
    KVMove,
    KVMoved,
    RequestId,
    WeightUpdate,
)

_CLOSE_LIMIT_S = 5.0
"""A child that has not ended this long after it was told to is killed."""
_DRAIN_S = 0.05
"""After the process has ended: time to receive what it had sent."""


class HostProcess(Protocol):
    """The process that hosts the engine, wherever it runs."""

    @property
    def pid(self) -> int:
        """Process id on its machine."""

    async def wait(self) -> str:
        """Wait for the end; says how the process ended."""

    def kill(self) -> None:
        """End it by force. Idempotent."""

    def release(self) -> None:
        """Let go of what it leaves behind, after its end."""


@dataclass(slots=True)
class _Pending:
    """A call that waits for its answer."""

    future: asyncio.Future[messages.Answer]
    on_progress: OnProgress


class ProcessEngine:
    """An engine in another process. Made by `ProcessSpec.engine_in`, on a running event loop."""

    def __init__(
        self,
        child: HostProcess,
        channel: Channel,
        instance_id: int,
        heartbeat_s: float,
        max_missed_heartbeats: int,
    ) -> None:
        self._child = child
        self._instance_id = instance_id
        self._heartbeat_s = heartbeat_s
        self._max_missed = max_missed_heartbeats
        self._channel = channel
        self._socket = channel.socket
        self._pending: dict[int, _Pending] = {}
        self._num_calls = 0
        self._heard_something = True
        self._why_lost: str | None = None
        self._ready: asyncio.Future[EngineInfo] = asyncio.get_running_loop().create_future()
        self._supervisor = asyncio.create_task(self._supervise())

    async def ready(self, limit_s: float) -> None:
        """Wait for the child's engine. Raises EngineFailure or InvalidInput if it does not come."""
        await asyncio.wait({self._ready}, timeout=limit_s)
        if not self._ready.done():
            raise EngineFailure(f"instance {self._instance_id} did not start within {limit_s:g} s")
        self._ready.result()

    @property
    def info(self) -> EngineInfo:
        """Capacity and limits."""
        return self._ready.result()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        """Generate one chunk."""
        answer = await self._ask(lambda n: messages.RunChunk(call=n, chunk=chunk), on_progress)
        assert isinstance(answer, messages.ChunkDone)  # noqa: S101 - the worker's pairing
        return answer.result

    async def move_kv(self, move: KVMove) -> KVMoved:
        """Export or drop a KV object."""
        answer = await self._ask(lambda n: messages.MoveKV(call=n, move=move))
        assert isinstance(answer, messages.KVDone)  # noqa: S101 - the worker's pairing
        return answer.moved

    async def abort(self, request_id: RequestId) -> None:
        """Cut a chunk short."""
        await self._ask(lambda n: messages.AbortRequest(call=n, request_id=request_id))

    async def update_weights(self, update: WeightUpdate) -> None:
        """Replace the weights."""
        await self._ask(lambda n: messages.UpdateWeights(call=n, update=update))

    async def close(self) -> None:
        """End the child, by force after a while; chunks in flight end with InstanceLost."""
        if self._why_lost is None:
            self._why_lost = "closed"
            if self._ready.done():
                self._socket.send(messages.encode(messages.Close()))
            else:
                self._child.kill()
        await asyncio.wait({self._supervisor}, timeout=_CLOSE_LIMIT_S)
        self._child.kill()
        await asyncio.shield(self._supervisor)
        self._channel.close()
        self._child.release()

    async def _ask(
        self, call: Callable[[int], messages.Call], on_progress: OnProgress | None = None
    ) -> messages.Answer:
        """Send a call before the first wait, so that calls keep their order; await its answer."""
        if self._why_lost is not None:
            raise InstanceLost(self._instance_id, self._why_lost)
        self._num_calls += 1
        number = self._num_calls
        future: asyncio.Future[messages.Answer] = asyncio.get_running_loop().create_future()
        self._pending[number] = _Pending(future, on_progress or _ignore)
        self._socket.send(messages.encode(call(number)))
        try:
            answer = await future
        finally:
            self._pending.pop(number, None)
        if isinstance(answer, messages.CallFailed):
            raise messages.unpack_error(answer.error)
        return answer

    # ---------------------------------------------------------------- supervision

    async def _supervise(self) -> None:
        how = "its supervision failed"
        try:
            async with asyncio.TaskGroup() as tasks:
                receiver = tasks.create_task(self._receive())
                watchdog = tasks.create_task(self._watch())
                how = await self._child.wait()
                await asyncio.wait({receiver}, timeout=_DRAIN_S)
                receiver.cancel()
                watchdog.cancel()
        finally:
            self._child.kill()
            self._lose(self._why_lost or how)

    async def _receive(self) -> None:
        while True:
            report = messages.decode_report(await self._socket.recv())
            self._heard_something = True
            match report:
                case messages.Ready():
                    self._ready.set_result(report.info)
                case messages.LaunchFailed():
                    self._refuse(messages.unpack_error(report.error))
                case messages.Heartbeat():
                    pass
                case messages.Progress():
                    if report.call in self._pending:
                        self._pending[report.call].on_progress(report.progress)
                case _:
                    self._settle(report)

    def _settle(self, answer: messages.Answer) -> None:
        """Resolve a call whose caller may have gone."""
        pending = self._pending.get(answer.call)
        if pending is not None and not pending.future.done():
            pending.future.set_result(answer)

    async def _watch(self) -> None:
        """Kill a child that is silent.

        Silence is counted in checks, not by the clock, so a child is not blamed for the time in
        which this process was itself stopped. While the engine loads, its launch limit holds.
        """
        await asyncio.wait({self._ready})
        num_missed = 0
        while num_missed < self._max_missed:
            self._heard_something = False
            await asyncio.sleep(self._heartbeat_s)
            num_missed = 0 if self._heard_something else num_missed + 1
        self._why_lost = f"silent for {num_missed * self._heartbeat_s:g} s"
        self._child.kill()

    def _lose(self, why: str) -> None:
        self._why_lost = why
        self._refuse(EngineFailure(f"instance {self._instance_id} did not start: {why}"))
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(InstanceLost(self._instance_id, why))

    def _refuse(self, error: SeerError) -> None:
        """The engine will not be ready."""
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # retrieved: the launch may have been cancelled


def _ignore(_: ChunkProgress) -> None:
    """Progress of a call that has none."""
