"""A draft server and clients in real processes, some of which die."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from seer.drafting.draft_client import ClientSettings, DraftClient
from seer.drafting.messages import GroupKey
from seer.drafting.remote_server import RemoteServer
from seer.drafting.server_process import ServerProcess
from seer.drafting.suffix_tree import DraftSettings
from seer.errors import EngineFailure
from seer.subprocesses import child_environment

KEY = GroupKey(4, 2)
TEXT = list(range(10, 74))
LIMIT_S = 30.0
SETTINGS = ClientSettings(vocab_size=100, update_tokens=4, fetch_period_s=0.01)

OTHER_INSTANCE = """
import sys, time
from seer.drafting.draft_client import ClientSettings, DraftClient
from seer.drafting.messages import GroupKey
from seer.drafting.remote_server import RemoteServer

client = DraftClient(
    RemoteServer(sys.argv[1]),
    ClientSettings(vocab_size=100, update_tokens=4, fetch_period_s=0.01),
)
client.register_group(GroupKey(4, 2), [1, 2, 3])
client.start()
client.append(client.open(GroupKey(4, 2), 0), 0, list(range(10, 74)))
time.sleep(600)
"""


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    started = ServerProcess.start(vocab_size=100)
    yield started
    started.close()


@contextmanager
def _client(address: str) -> Iterator[DraftClient]:
    client = DraftClient(RemoteServer(address, reply_limit_s=0.2), SETTINGS)
    client.register_group(KEY, [1, 2, 3])
    client.start()
    try:
        yield client
    finally:
        client.close()


def _wait_for(happened: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < give_up, "did not happen"
        time.sleep(0.01)


def _drafted(client: DraftClient) -> list[int]:
    request = client.open(KEY, 50, TEXT[3:9])
    drafts = client.speculate([request], 4, DraftSettings(min_probability=0.0))
    client.end(request)
    return drafts.token_ids.tolist()


def test_a_killed_client_leaves_its_texts(server: ServerProcess) -> None:
    """What an instance pushed before it was killed is drafted elsewhere."""
    command = [sys.executable, "-c", OTHER_INSTANCE, server.address]
    other = subprocess.Popen(command, env=child_environment())
    try:
        with _client(server.address) as client:
            _wait_for(lambda: client.stats.num_pulled_tokens == len(TEXT))
            other.send_signal(signal.SIGKILL)
            other.wait()
            assert _drafted(client) == TEXT[9:13]
    finally:
        other.kill()
        other.wait()


def test_a_killed_server_costs_nothing_but_time(server: ServerProcess) -> None:
    """Clients go on drafting without it, and fill the one that comes back."""
    with _client(server.address) as first:
        first.append(first.open(KEY, 0), 0, TEXT[:32])
        _wait_for(lambda: first.stats.num_pushed_tokens >= 32)
        server.kill()
        _wait_for(lambda: first.stats.num_lost > 0)
        first.append(first.open(KEY, 1), 0, TEXT)
        assert _drafted(first) == TEXT[9:13]
        again = ServerProcess.start(address=server.address, vocab_size=100)
        try:
            with _client(server.address) as second:
                _wait_for(lambda: second.stats.num_pulled_tokens >= 32 + len(TEXT))
                assert _drafted(second) == TEXT[9:13]
        finally:
            again.close()


def test_a_client_that_starts_first_finds_the_server(tmp_path: Path) -> None:
    """No server at the address yet: nothing waits, and all is pushed once there is one."""
    address = f"ipc://{tmp_path}/socket"
    with _client(address) as client:
        client.append(client.open(KEY, 0), 0, TEXT)
        _wait_for(lambda: client.stats.num_lost > 0)
        assert _drafted(client) == TEXT[9:13]
        server = ServerProcess.start(address=address, vocab_size=100)
        try:
            _wait_for(lambda: client.stats.num_pushed_tokens >= len(TEXT))
        finally:
            server.close()


def test_the_server_outlives_nonsense(server: ServerProcess) -> None:
    """A message that is none of ours is passed over."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(server.address)
        socket.send(b"nonsense")
        socket.send_multipart([b"more", b"frames"])
        link = RemoteServer(server.address)
        assert link.fetch(()).deltas == []
        link.close()


def test_nonsense_from_the_other_side_is_a_lost_server(tmp_path: Path) -> None:
    """Whoever answers with something else is no server of ours."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        address = f"ipc://{tmp_path}/socket"
        socket.bind(address)
        with _client(address) as client:
            socket.send_multipart([socket.recv_multipart()[0], b"nonsense"])
            _wait_for(lambda: client.stats.num_lost > 0)
            assert client.group_keys == [KEY]


def test_a_server_starts_where_temporary_files_lie_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket lies elsewhere, as a socket's path has to be short."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    ServerProcess.start(vocab_size=100).close()


def test_an_address_that_cannot_be_served_is_told() -> None:
    """The server's own words are in the error."""
    with pytest.raises(EngineFailure, match="nowhere"):
        ServerProcess.start(address="ipc:///nowhere/at/all", start_limit_s=20)
