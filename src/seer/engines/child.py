"""A child process of ours: its private directory, its standard error, its end."""

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from seer.errors import EngineFailure
from seer.subprocesses import child_command, child_environment

_TAIL_BYTES = 2000


class Child:
    """`python -m <module>` with a line of input to start with.

    The child sees our import path and none of our signals from the terminal: an interrupt is the
    owner's to handle. Its standard output and error go to a file; its standard input stays open for
    as long as we live.
    """

    def __init__(self, process: Process, directory: Path) -> None:
        self._process = process
        self._directory = directory

    @classmethod
    async def start(
        cls, module: str, directory: Path, hello: bytes, environment: Mapping[str, str]
    ) -> Self:
        """Start the child with `hello` as its input. It takes over `directory`, and removes it.

        Raises EngineFailure when the system starts no process.
        """
        try:
            process = await _start(module, directory, environment)
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise EngineFailure(f"cannot start {sys.executable}: {error}") from error
        assert process.stdin is not None  # noqa: S101 - asked for
        process.stdin.write(hello + b"\n")  # a child that is gone shows in `wait`
        return cls(process, directory)

    async def wait(self) -> str:
        """Wait for the end; says how the process ended, with what it last wrote."""
        code = await self._process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        tail = await asyncio.to_thread(self._tail)
        return f"process {self._process.pid} {how}" + (
            f"; its last output:\n{tail}" if tail else ""
        )

    def kill(self) -> None:
        """Send SIGKILL, which ends a stopped process too, to it and whatever it has started."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def release(self) -> None:
        """Remove the private directory."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _tail(self) -> str:
        data = (self._directory / "stderr").read_bytes()
        return data[-_TAIL_BYTES:].decode(errors="replace").strip()


async def _start(module: str, directory: Path, environment: Mapping[str, str]) -> Process:
    with (directory / "stderr").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *child_command(module),
            stdin=PIPE,
            stdout=log,
            stderr=log,
            env=child_environment(environment),
            start_new_session=True,
        )
