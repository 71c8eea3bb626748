"""A real Mooncake store on this machine: moved KV, a lost master, a lost segment, bad input."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec
from seer.errors import InvalidInput
from seer.kvpool.mooncake.master import MooncakeServer
from seer.kvpool.mooncake.tier import MooncakeTier
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.rollout.config import RolloutConfig
from seer.rollout.events import ExportObject, SpillObject
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.results import GroupResult
from seer.rollout.rollout import Rollout
from seer.rollout.trace import read_trace
from seer.scheduling.placement import PlacementConfig
from seer.types import RemoteAddress, SamplingParams, Tier
from support.tiny_tokenizer import make_tiny_model_directory

pytest.importorskip("mooncake.store", exc_type=ImportError)

PAYLOAD_BYTES = 64 * 1024
KEYS = [bytes([i]) * 16 for i in range(8)]
PROMPTS = [[3 + i, 9, 40, 77, 5] * 6 for i in range(4)]
GROUP_SIZE = 4
SAMPLING = SamplingParams(seed=5, max_tokens=90, ignore_eos=True)
MOVING = PlacementConfig(max_spread=0, pull_gap_tokens=0)
"""Chunks go where there is room, so their KV moves."""


@pytest.fixture(scope="module")
def server() -> Iterator[MooncakeServer]:
    """A store of 64 MiB that nobody harms."""
    started = MooncakeServer.start(64 * 2**20, port=0)
    yield started
    started.close()


@pytest.fixture
def doomed() -> Iterator[MooncakeServer]:
    """A store that the test may break."""
    started = MooncakeServer.start(64 * 2**20, port=0)
    yield started
    started.close()


def _tier(server: MooncakeServer, namespace: str = "job") -> MooncakeTier:
    return MooncakeTier(RemoteAddress(master=server.address, namespace=namespace), PAYLOAD_BYTES)


def _payload(i: int) -> bytes:
    return bytes([i]) * PAYLOAD_BYTES


def test_blocks_travel_between_clients_but_not_between_jobs(server: MooncakeServer) -> None:
    """Another client of the same job reads what was put; of another job it reads nothing."""
    writer, reader, stranger = _tier(server), _tier(server), _tier(server, "other")
    writer.check()
    assert writer.put(KEYS, 30, map(_payload, range(8)))
    assert writer.put(KEYS[:1], 30, iter([_payload(9)]))
    assert reader.has(KEYS) == 8
    assert [bytes(p) for p in reader.get(KEYS)] == [_payload(i) for i in range(8)]
    assert list(stranger.get(KEYS)) == []
    for tier in (writer, reader, stranger):
        tier.close()


def test_a_full_store_costs_blocks_only(server: MooncakeServer) -> None:
    """Not everything fits: no error, and the tier is not given up."""
    tier = _tier(server)
    many = [i.to_bytes(16, "little") for i in range(1500)]
    assert not tier.put(many, 30, map(_payload, (i % 256 for i in range(1500))))
    assert tier._silent_until == 0.0
    tier.close()


def test_a_lost_segment_costs_its_blocks(doomed: MooncakeServer) -> None:
    """Its objects read as missing, at once and later, in bounded time."""
    tier = _tier(doomed)
    assert tier.put(KEYS, 30, map(_payload, range(8)))
    doomed.kill_node()
    started = time.monotonic()
    assert list(tier.get(KEYS)) == []
    assert list(tier.get(KEYS)) == []
    assert time.monotonic() - started < 10
    tier.close()


def test_a_port_in_use_is_refused() -> None:
    """Before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match="free port"):
            MooncakeServer.start(2**24, port=port)
        with pytest.raises(InvalidInput, match="metrics_port"):
            MooncakeServer.start(2**24, port=0, metrics_port=port)


def test_a_master_that_does_not_answer_is_reported() -> None:
    """Nothing listens there."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = PoolConfig(host_bytes=2**20, remote=f"mooncake://127.0.0.1:{port}")
    with pytest.raises(InvalidInput, match="no Mooncake master answers"):
        PoolOwner.create(config, 1000)


def test_everything_listens_on_loopback_that_can_be_told_to(server: MooncakeServer) -> None:
    """The master's port and its page of metrics."""
    port = int(server.address.rpartition(":")[2])
    listening = _listening()
    assert listening[port] == "0100007F"


def _listening() -> dict[int, str]:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    places = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {int(port, 16): host for host, port in places}


def _rollout(
    config: RolloutConfig, on_progress: Callable[[int], None]
) -> tuple[list[list[list[int]]], RolloutMetrics]:
    async def run() -> tuple[list[GroupResult], RolloutMetrics]:
        async with Rollout(config) as rollout:
            groups = await rollout.generate(
                PROMPTS,
                group_size=GROUP_SIZE,
                sampling=SAMPLING,
                on_progress=lambda _: on_progress(rollout._driver.store.num_tokens),
            )
            return groups, rollout.metrics()

    groups, metrics = asyncio.run(run())
    return [[c.output_token_ids for c in group.completions] for group in groups], metrics


def _config(directory: Path, name: str, pool: PoolConfig) -> RolloutConfig:
    spec = LocalSpec(model=str(directory), dtype="float32", kv_tokens=640)
    return RolloutConfig(
        engine=ProcessSpec(inner=spec),
        chunk_size=16,
        placement=MOVING,
        pool=pool,
        trace_path=directory / f"{name}.jsonl",
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[list[list[int]]]:
    """Tokens of the rollout with plenty of KV memory and no remote store."""
    directory = tmp_path_factory.mktemp("undisturbed")
    make_tiny_model_directory(directory)
    tokens, _ = _rollout(_config(directory, "plain", PoolConfig()), lambda _: None)
    return tokens


@pytest.mark.parametrize("host_bytes", [0, 1 << 17], ids=["remote-only", "spilled"])
def test_same_tokens_over_mooncake(
    tmp_path: Path, server: MooncakeServer, undisturbed: list[list[list[int]]], host_bytes: int
) -> None:
    """KV moves through the store, directly or by way of host memory."""
    make_tiny_model_directory(tmp_path)
    pool = PoolConfig(host_bytes=host_bytes, remote=server.url)
    tokens, metrics = _rollout(_config(tmp_path, "moved", pool), lambda _: None)
    assert tokens == undisturbed
    assert metrics.kv_bytes_moved > 0
    actions = [a for record in read_trace(tmp_path / "moved.jsonl") for a in record.actions]
    if host_bytes:
        assert any(isinstance(a, SpillObject) and a.remote_slots for a in actions)
        return
    exports = [a for a in actions if isinstance(a, ExportObject)]
    assert exports
    assert all(a.tier is Tier.REMOTE for a in exports)


def test_a_master_killed_in_the_middle_costs_no_token(
    tmp_path: Path, doomed: MooncakeServer, undisturbed: list[list[list[int]]]
) -> None:
    """KV is computed again."""
    make_tiny_model_directory(tmp_path)
    is_killed = False

    def kill_in_the_middle(num_tokens: int) -> None:
        nonlocal is_killed
        if not is_killed and num_tokens > 500:
            is_killed = True
            doomed.kill_master()

    pool = PoolConfig(host_bytes=0, remote=doomed.url)
    tokens, _ = _rollout(_config(tmp_path, "killed", pool), kill_in_the_middle)
    assert is_killed
    assert tokens == undisturbed


def test_closing_a_server_ends_its_processes() -> None:
    """Nothing is left behind."""
    server = MooncakeServer.start(2**24, port=0)
    pids = [server._master._process.pid, server._node._process.pid]
    server.close()
    assert not server.is_alive
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
