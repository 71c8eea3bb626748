"""The child's side of a hosted engine: `python -m seer.engines.worker`, started by `process.py`.

Reads one Hello from standard input, launches the engine it names, and carries out calls in the
order they arrive. It never outlives its owner: standard input ends with the owner, and on Linux the
kernel sends SIGKILL besides. Heartbeats come from the event loop, so they say that this process is
scheduled and answers, however long a step takes on its own thread.
"""

import asyncio
import ctypes
import importlib
import logging
import os
import signal
import sys
from typing import cast

import msgspec
import zmq
import zmq.asyncio

from seer.engines import messages
from seer.errors import EngineFailure, InvalidInput, SeerError
from seer.rollout.engine import Engine, EngineSpec, OnProgress
from seer.subprocesses import end_with_owner
from seer.types import ChunkProgress

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Host the engine that the first line of standard input names, until told to close."""
    hello = msgspec.json.decode(sys.stdin.buffer.readline(), type=messages.Hello)
    _die_with_owner()
    asyncio.run(serve(hello))


async def serve(hello: messages.Hello) -> None:
    """Launch the engine that `hello` names, and carry out its owner's calls until Close."""
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.set(zmq.SNDHWM, 0)
        socket.set(zmq.RCVHWM, 0)
        socket.connect(hello.address)
        host = _Host(socket)
        heart = asyncio.create_task(host.beat(hello.heartbeat_s))
        try:
            await host.run(hello)
        finally:
            heart.cancel()


class _Host:
    """The engine behind one connection."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._socket = socket

    async def beat(self, interval_s: float) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await self._send(messages.Heartbeat())
            await asyncio.sleep(interval_s)

    async def run(self, hello: messages.Hello) -> None:
        """Launch, serve calls until Close, close."""
        try:
            engine = await _launch(hello)
        except SeerError as error:
            await self._send(messages.LaunchFailed(error=messages.pack_error(error)))
            return
        await self._send(messages.Ready(info=engine.info))
        async with asyncio.TaskGroup() as calls:
            while True:
                command = messages.decode_command(await self._socket.recv())
                if isinstance(command, messages.Close):
                    break
                # Tasks start in the order of creation, and an engine takes its place in the queue
                # before it first waits: the order of arrival is the order of the calls.
                calls.create_task(self._answer(engine, command))
            await engine.close()

    async def _answer(self, engine: Engine, call: messages.Call) -> None:
        try:
            answer = await self._carry_out(engine, call)
        except SeerError as error:
            answer = messages.CallFailed(call=call.call, error=messages.pack_error(error))
        except Exception as error:  # the process's edge: the owner must be told
            logger.exception("call %d failed", call.call)
            failure = messages.FailureError(why=f"{type(error).__name__}: {error}")
            answer = messages.CallFailed(call=call.call, error=failure)
        await self._send(answer)

    async def _carry_out(self, engine: Engine, call: messages.Call) -> messages.Answer:
        match call:
            case messages.RunChunk():
                result = await engine.run(call.chunk, self._progress_sender(call.call))
                return messages.ChunkDone(call=call.call, result=result)
            case messages.MoveKV():
                return messages.KVDone(call=call.call, moved=await engine.move_kv(call.move))
            case messages.AbortRequest():
                await engine.abort(call.request_id)
            case messages.UpdateWeights():
                await engine.update_weights(call.update)
        return messages.CallDone(call=call.call)

    def _progress_sender(self, call: int) -> OnProgress:
        def send(progress: ChunkProgress) -> None:
            # Taken at once: the queue has no limit. The future says nothing that matters here.
            self._socket.send(messages.encode(messages.Progress(call=call, progress=progress)))

        return send

    async def _send(self, report: messages.Report) -> None:
        await self._socket.send(messages.encode(report))


async def _launch(hello: messages.Hello) -> Engine:
    """Start the engine. Raises SeerError, whatever goes wrong."""
    try:
        _pin(hello.setup.cpus)
        return await _load_spec(hello).launch(hello.setup)
    except SeerError:
        raise
    except Exception as error:
        logger.exception("launch failed")
        raise EngineFailure(f"{type(error).__name__}: {error}") from error


def _pin(cpus: tuple[int, ...]) -> None:
    """Keep this thread, and those that it starts, on `cpus`; before anything heavy is imported."""
    if not cpus or not hasattr(os, "sched_setaffinity"):
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise InvalidInput("cpus", cpus, f"not processors of this machine ({error})") from error


def _load_spec(hello: messages.Hello) -> EngineSpec:
    """Import the spec's class and decode the spec."""
    module, _, name = hello.spec_class.partition(":")
    target: object = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    spec_class = cast("type[EngineSpec]", target)
    return msgspec.json.decode(hello.spec, type=spec_class)


def _die_with_owner() -> None:
    """End this process when the owner ends, however that comes about."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    end_with_owner()


if __name__ == "__main__":
    main()
