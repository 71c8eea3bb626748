"""A Mooncake store for a trial on one machine: a master and a process that lends it memory.

Everything listens on loopback unless another host is named: so does the master's page of metrics,
which anybody who reaches it can use to remove objects.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from seer.errors import EngineFailure, InvalidInput
from seer.kvpool.mooncake import storage_node
from seer.kvpool.mooncake.library import PACKAGE, check_library
from seer.kvpool.mooncake.master_process import NAME, find_master
from seer.subprocesses import (
    child_command,
    child_environment,
    end_owned,
    private_directory,
)

DEFAULT_PORT = 50051
_START_LIMIT_S = 60.0
_END_LIMIT_S = 5.0
_POLL_S = 0.05


class MooncakeServer:
    """A master and one storage node, both children of this process."""

    def __init__(self, master: "_Child", node: "_Child", address: str) -> None:
        self._master = master
        self._node = node
        self.address = address
        """The master's `host:port`."""

    @property
    def url(self) -> str:
        """For `--pool`."""
        return f"mooncake://{self.address}"

    @classmethod
    def start(
        cls,
        num_bytes: int,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        metrics_port: int | None = None,
    ) -> Self:
        """Start both, with `num_bytes` of memory for objects; blocks until they answer.

        Port 0 takes a free one; metrics are on the next port unless one is named. Raises
        InvalidInput when Mooncake is not installed or a port is in use, EngineFailure with their
        last output when they do not come up.
        """
        check_library()
        if find_master() is None:
            raise InvalidInput("pool", NAME, f"not installed: pip install {PACKAGE}")
        port = _free_port(host, port)
        metrics = _free_port(host, 0 if metrics_port is None else metrics_port, "metrics_port")
        address = f"{host}:{port}"
        master = _Child.spawn("master_process", _master_arguments(host, port, metrics))
        try:
            master.wait_until(lambda: _answers(host, port))
            node = _Child.spawn("storage_node", [address, str(num_bytes), storage_node.WITH_OWNER])
        except EngineFailure:
            master.close()
            raise
        server = cls(master, node, address)
        try:
            node.wait_until(lambda: storage_node.READY in node.output())
        except EngineFailure:
            server.close()
            raise
        return server

    @property
    def is_alive(self) -> bool:
        """Whether both run."""
        return self._master.is_alive and self._node.is_alive

    def kill_master(self) -> None:
        """SIGKILL the master; the node's memory is of no use without it."""
        self._master.kill()

    def kill_node(self) -> None:
        """SIGKILL the process that lends memory; its objects are lost."""
        self._node.kill()

    def close(self) -> None:
        """End both. Idempotent."""
        self._node.close()
        self._master.close()


class _Child:
    """A process of ours that ends with its standard input."""

    def __init__(self, process: "subprocess.Popen[bytes]", directory: Path) -> None:
        self._process = process
        self._directory = directory

    @classmethod
    def spawn(cls, module: str, arguments: Sequence[str]) -> Self:
        directory = private_directory()
        with (directory / "output").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - a module of ours
                [*child_command(f"seer.kvpool.mooncake.{module}"), *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=directory,
                env=child_environment(),
                start_new_session=True,  # an interrupt from the terminal is the owner's to handle
            )
        return cls(process, directory)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return (self._directory / "output").read_text(errors="replace")

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        give_up = time.monotonic() + _START_LIMIT_S
        while self.is_alive and time.monotonic() < give_up:
            if is_ready():
                return
            time.sleep(_POLL_S)
        raise EngineFailure(f"Mooncake did not start: {self.output()[-2000:]}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        end_owned(self._process, _END_LIMIT_S)
        shutil.rmtree(self._directory, ignore_errors=True)


def _master_arguments(host: str, port: int, metrics_port: int) -> list[str]:
    return [
        f"--rpc_address={host}",
        f"--rpc_port={port}",
        f"--metrics_host={host}",
        f"--metrics_port={metrics_port}",
        "--enable_metric_reporting=false",
    ]


def _free_port(host: str, port: int, field: str = "port") -> int:
    """The port, or a free one for 0. Raises InvalidInput when it cannot be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InvalidInput(field, port, f"allowed: a free port of {host} ({error})") from error
        return int(probe.getsockname()[1])


def _answers(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0
