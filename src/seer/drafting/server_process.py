"""The draft server as a process of its own: `python -m seer.drafting.server_process`.

It reads one Hello from standard input and ends with its owner, whose end closes that input. All
state is what clients can bring again, so a new server at the same address is filled by them.
"""

import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import msgspec
import zmq

from seer.drafting import messages
from seer.drafting.draft_server import DraftServer
from seer.drafting.group_store import MAX_VOCAB_SIZE
from seer.drafting.remote_server import RemoteServer
from seer.errors import EngineFailure
from seer.subprocesses import (
    child_command,
    child_environment,
    end_owned,
    private_directory,
)

logger = logging.getLogger(__name__)

_END_LIMIT_S = 5.0


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of standard input, as JSON."""

    address: str
    """ZeroMQ endpoint to serve at."""
    vocab_size: int = MAX_VOCAB_SIZE


def main() -> None:
    """Serve as the first line of standard input says, until standard input ends."""
    with os.fdopen(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as owner:
        hello = msgspec.json.decode(owner.readline(), type=Hello)
        with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
            socket.set(zmq.LINGER, 0)
            socket.bind(hello.address)
            serve(socket, DraftServer(vocab_size=hello.vocab_size), owner.fileno())


def serve(socket: "zmq.Socket[bytes]", server: DraftServer, owner: int) -> None:
    """Answer on a ROUTER socket until the file descriptor `owner` has data or its end."""
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    poller.register(owner, zmq.POLLIN)
    while owner not in (ready := dict(poller.poll())):
        if socket in ready:
            client, *frames = socket.recv_multipart()
            answer = _answer(server, b"".join(frames))
            if answer is not None:
                socket.send_multipart([client, messages.encode(answer)])


def _answer(server: DraftServer, data: bytes) -> messages.Fetched | None:
    try:
        request = messages.decode_request(data)
    except msgspec.DecodeError as error:
        logger.warning("passed over a message that is none of ours: %s", error)
        return None
    if isinstance(request, messages.Update):
        server.update(request.updates)
        return None
    return msgspec.structs.replace(server.fetch(request.groups), call=request.call)


class ServerProcess:
    """A draft server in a child process."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str, directory: Path) -> None:
        self._process = process
        self._directory = directory
        self.address = address
        """For RemoteServer."""

    @classmethod
    def start(
        cls,
        *,
        address: str | None = None,
        vocab_size: int = MAX_VOCAB_SIZE,
        start_limit_s: float = 60.0,
    ) -> Self:
        """Start a server, at a private address unless one is given, and wait until it answers.

        Raises EngineFailure with its last output when it does not come up.
        """
        directory = private_directory()
        hello = Hello(address=address or f"ipc://{directory}/socket", vocab_size=vocab_size)
        server = cls(_spawn(hello, directory / "output"), hello.address, directory)
        try:
            server._await_answer(start_limit_s)
        except EngineFailure:
            server.close()
            raise
        return server

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the server, by force after a while."""
        end_owned(self._process, _END_LIMIT_S)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _await_answer(self, limit_s: float) -> None:
        link = RemoteServer(self.address, reply_limit_s=min(limit_s, 0.5))
        give_up = time.monotonic() + limit_s
        try:
            while self._process.poll() is None and time.monotonic() < give_up:
                try:
                    link.fetch(())
                except ConnectionError:
                    continue
                return
        finally:
            link.close()
        output = (self._directory / "output").read_text(errors="replace")[-2000:]
        raise EngineFailure(f"the draft server at {self.address} did not start: {output}")


def _spawn(hello: Hello, output: Path) -> "subprocess.Popen[bytes]":
    with output.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - a module of ours
            child_command("seer.drafting.server_process"),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=child_environment(),
            start_new_session=True,  # an interrupt from the terminal is the owner's to handle
        )
    assert process.stdin is not None  # noqa: S101 - asked for
    process.stdin.write(msgspec.json.encode(hello) + b"\n")
    process.stdin.flush()
    return process


if __name__ == "__main__":
    main()
