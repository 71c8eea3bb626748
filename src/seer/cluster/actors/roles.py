"""What runs in the actors. Ray creates them by these classes; every node must have Seer installed.

Ray starts and watches the processes. What an instance says goes over ZeroMQ, straight to the
driver, and drafts and KV straight between instances, draft servers and pool nodes.
"""

import asyncio
import os

import msgspec
import ray
import zmq

from seer.drafting import server_process
from seer.drafting.draft_server import DraftServer
from seer.engines import messages, worker
from seer.kvpool.host_store import HostFile, HostStore
from seer.kvpool.pool_node import serve_pool_node
from seer.kvpool.slots import SlotLayout


class Whereabouts(msgspec.Struct, frozen=True, array_like=True):
    """Where an actor runs."""

    node_id: str
    host: str
    """IP address of the node."""
    pid: int


def whereabouts() -> Whereabouts:
    """Of this process."""
    node_id = ray.get_runtime_context().get_node_id()
    return Whereabouts(node_id, ray.util.get_node_ip_address(), os.getpid())


class InstanceActor:
    """Hosts engines, usually one, as `engines/worker.py` does in a child process."""

    def where(self) -> Whereabouts:
        """Where it runs."""
        return whereabouts()

    def serve(self, hello: bytes) -> None:
        """Host the engine that `hello` names until its owner says Close."""
        asyncio.run(worker.serve(msgspec.json.decode(hello, type=messages.Hello)))


class DraftServerActor:
    """Hosts one draft server."""

    def __init__(self) -> None:
        self._socket = zmq.Context().socket(zmq.ROUTER)
        self._socket.set(zmq.LINGER, 0)

    def bind(self, address: str | None) -> str:
        """Listen at an address, that of a server that has died; None: at a free port."""
        self._socket.bind(address or f"tcp://{ray.util.get_node_ip_address()}:*")
        return self._socket.get_string(zmq.LAST_ENDPOINT)

    def serve(self, vocab_size: int) -> None:
        """Answer for as long as this process lives."""
        never, _ = os.pipe()
        server_process.serve(self._socket, DraftServer(vocab_size=vocab_size), never)


class PoolNodeActor:
    """Lends memory of its node to the KV pool."""

    def __init__(self, payload_bytes: int, num_slots: int) -> None:
        layout = SlotLayout(payload_bytes=payload_bytes, num_slots=num_slots)
        file = HostFile(layout)
        self._store = HostStore(file.path, layout)
        file.close()  # the mapping stays, and nothing is left behind however this process ends
        self._socket = zmq.Context().socket(zmq.ROUTER)
        self._socket.set(zmq.LINGER, 0)

    def bind(self) -> str:
        """Listen at a free port; returns the address."""
        self._socket.bind(f"tcp://{ray.util.get_node_ip_address()}:*")
        return self._socket.get_string(zmq.LAST_ENDPOINT)

    def serve(self) -> None:
        """Answer for as long as this process lives."""
        serve_pool_node(self._socket, self._store)
