"""The draft server of a rollout: a process of its own, started again when it dies.

Instances draft without it from what they have, and bring a new one up to date: its loss costs some
accepted guesses for a moment.
"""

import asyncio
import contextlib
import logging
import shutil
from pathlib import Path
from typing import Self

from seer.drafting.server_process import ServerProcess
from seer.errors import EngineFailure
from seer.subprocesses import private_directory

logger = logging.getLogger(__name__)

_WATCH_PERIOD_S = 0.5


class DraftService:
    """A running draft server."""

    def __init__(self, directory: Path, vocab_size: int, process: ServerProcess) -> None:
        """Watches over a server that runs; takes it and its directory over. See `start`."""
        self._directory = directory
        self._vocab_size = vocab_size
        self._process = process
        self._watcher = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, vocab_size: int) -> Self:
        """Start the server. Raises EngineFailure when it does not come up."""
        directory = private_directory()
        try:
            process = await asyncio.to_thread(_launch, directory, vocab_size)
        except EngineFailure:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return cls(directory, vocab_size, process)

    @property
    def address(self) -> str:
        """Where clients reach it, also after a restart."""
        return _address(self._directory)

    @property
    def pid(self) -> int:
        """Process id of the server that runs now."""
        return self._process.pid

    async def close(self) -> None:
        """End the server."""
        self._watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watcher
        await asyncio.to_thread(self._process.close)
        shutil.rmtree(self._directory, ignore_errors=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_PERIOD_S)
            if self._process.is_alive:
                continue
            logger.warning("the draft server has died; starting another")
            try:
                await asyncio.to_thread(self._process.close)
                self._process = await asyncio.to_thread(_launch, self._directory, self._vocab_size)
            except EngineFailure as error:
                logger.warning("drafts go on without a server: %s", error)
                return


def _launch(directory: Path, vocab_size: int) -> ServerProcess:
    return ServerProcess.start(address=_address(directory), vocab_size=vocab_size)


def _address(directory: Path) -> str:
    return f"ipc://{directory}/socket"
