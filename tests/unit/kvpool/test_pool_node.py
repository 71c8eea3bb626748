"""Pool nodes: slots in the memory of other processes, over ZeroMQ."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import zmq

from seer.kvpool.host_store import HostFile, HostStore
from seer.kvpool.pool import PoolClient
from seer.kvpool.pool_node import PoolNodes, serve_pool_node
from seer.kvpool.slots import SlotLayout
from seer.types import PoolAddress, Tier

LAYOUT = SlotLayout(payload_bytes=32, num_slots=2)
KEY = b"k" * 16


@contextmanager
def _node() -> Iterator[str]:
    """A pool node in a thread of this process; its address."""
    file = HostFile(LAYOUT)
    store = HostStore(file.path, LAYOUT)
    file.close()
    context = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.set(zmq.LINGER, 0)
    socket.bind("tcp://127.0.0.1:*")
    address = socket.get_string(zmq.LAST_ENDPOINT)

    def serve() -> None:
        try:
            serve_pool_node(socket, store)
        except zmq.ContextTerminated:
            socket.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield address
    finally:
        context.term()
        thread.join()
        store.close()


@pytest.fixture
def address() -> Iterator[str]:
    with ExitStack() as stack:
        yield ",".join(stack.enter_context(_node()) for _ in range(2))


def _payload(byte: int) -> memoryview:
    return memoryview(bytes([byte]) * LAYOUT.payload_bytes)


def test_what_one_client_writes_another_reads(address: str) -> None:
    """Each slot of both nodes on its own, through the pool's own interface."""
    where = PoolAddress(
        host_path=address,
        num_host_slots=4,
        disk_path="",
        num_disk_slots=0,
        payload_bytes=LAYOUT.payload_bytes,
    )
    writer, reader = PoolClient.open(where), PoolClient.open(where)
    for slot in range(4):
        writer.write_block(slot, KEY, 1, _payload(slot))
    out = memoryview(bytearray(LAYOUT.payload_bytes))
    for slot in range(4):
        assert reader.read_block(Tier.HOST, slot, KEY, out)
        assert out == _payload(slot)
    writer.close()
    reader.close()


def test_foreign_and_unknown_slots_read_as_missing(address: str) -> None:
    """As in shared memory."""
    nodes = PoolNodes(address)
    nodes.write(0, KEY, 1, _payload(7))
    nodes.write(9, KEY, 1, _payload(7))
    out = memoryview(bytearray(LAYOUT.payload_bytes))
    assert not nodes.read(0, b"x" * 16, out)
    assert not nodes.read(1, KEY, out)
    assert not nodes.read(9, KEY, out)
    nodes.close()


def test_a_node_that_is_away_is_asked_once_and_then_left_alone() -> None:
    """Until some time has passed."""
    now = 0.0
    with _node() as address:
        pass
    nodes = PoolNodes(address, clock=lambda: now, reply_limit_s=0.05)
    out = memoryview(bytearray(LAYOUT.payload_bytes))
    assert not nodes.read(0, KEY, out)
    with _node() as other:
        again = PoolNodes(f"{address},{other}", clock=lambda: now, reply_limit_s=0.05)
        again.write(0, KEY, 1, _payload(1))
        again.write(1, KEY, 1, _payload(1))
        assert not again.read(0, KEY, out)
        assert again.read(1, KEY, out)
        again.close()
    nodes.close()
