"""The host tier in the memory of other machines: pool nodes, and their slots as a client sees them.

A pool node keeps slots in its memory, in the form of `kvpool/slots.py`, and answers over ZeroMQ.
Several nodes share the slots of one pool: slot s lies on node s mod n. What cannot be reached reads
as missing, as a corrupt slot does, and costs a re-prefill; a node that was silent is left alone for
a while, so that a dead one costs a moment and not one limit a block.
"""

import time
from collections.abc import Callable, Sequence

import msgspec
import zmq

from seer.kvpool.host_store import HostStore

SEPARATOR = ","
_PREFIX = "tcp://"
_AWAY_S = 10.0
"""How long a silent node is left alone."""


class _Write(msgspec.Struct, frozen=True, array_like=True, tag=True):
    call: int
    slot: int
    key: bytes
    num_tokens: int


class _Read(msgspec.Struct, frozen=True, array_like=True, tag=True):
    call: int
    slot: int
    key: bytes
    num_bytes: int


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    call: int
    is_ok: bool


def is_pool_nodes(host_path: str) -> bool:
    """Whether `PoolAddress.host_path` names pool nodes, not a file."""
    return host_path.startswith(_PREFIX)


def serve_pool_node(socket: "zmq.Socket[bytes]", store: HostStore) -> None:
    """Answer reads and writes on a ROUTER socket, for ever."""
    while True:
        client, *frames = socket.recv_multipart(copy=False)
        header = msgspec.msgpack.decode(frames[0].buffer, type=_Write | _Read)
        payload: bytes | bytearray = b""
        try:
            if isinstance(header, _Write):
                store.write(header.slot, header.key, header.num_tokens, frames[1].buffer)
                is_ok = True
            else:
                payload = bytearray(header.num_bytes)
                is_ok = store.read(header.slot, header.key, memoryview(payload))
        except IndexError:
            is_ok = False
        answer = msgspec.msgpack.encode(_Answer(header.call, is_ok))
        socket.send_multipart([client, answer, payload if is_ok else b""], copy=False)


class PoolNodes:
    """The slots of all nodes of a pool, for one thread at a time."""

    def __init__(
        self,
        host_path: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        reply_limit_s: float = 2.0,
    ) -> None:
        """Connects with the first use."""
        self._context = zmq.Context()
        self._nodes = [
            _Node(self._context, address, clock, reply_limit_s)
            for address in host_path.split(SEPARATOR)
        ]

    def write(self, slot: int, key: bytes, num_tokens: int, payload: memoryview) -> None:
        """Replace a slot; one whose node is away keeps what it has."""
        node, place = self._find(slot)
        node.ask(lambda call: _Write(call, place, key, num_tokens), [payload])

    def read(self, slot: int, key: bytes, out: memoryview) -> bool:
        """Copy a slot's payload into `out` if it holds exactly that many bytes under `key`."""
        node, place = self._find(slot)
        payload = node.ask(lambda call: _Read(call, place, key, out.nbytes), [])
        if payload is None or payload.nbytes != out.nbytes:
            return False
        out.cast("B")[:] = payload
        return True

    def close(self) -> None:
        """Disconnect. Idempotent."""
        for node in self._nodes:
            node.disconnect()
        self._context.term()

    def _find(self, slot: int) -> tuple["_Node", int]:
        return self._nodes[slot % len(self._nodes)], slot // len(self._nodes)


class _Node:
    """The connection to one node."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        address: str,
        clock: Callable[[], float],
        reply_limit_s: float,
    ) -> None:
        self._context = context
        self._address = address
        self._clock = clock
        self._reply_limit_ms = int(reply_limit_s * 1000)
        self._socket: zmq.Socket[bytes] | None = None
        self._num_calls = 0
        self._away_until = 0.0

    def ask(
        self, make: Callable[[int], _Write | _Read], payload: Sequence[memoryview]
    ) -> memoryview | None:
        """The payload of the answer; None when it says no, or does not come."""
        if self._clock() < self._away_until:
            return None
        self._num_calls += 1
        socket = self._connected()
        header = msgspec.msgpack.encode(make(self._num_calls))
        socket.send_multipart([header, *payload])
        while socket.poll(self._reply_limit_ms):
            head, body = socket.recv_multipart(copy=False)
            answer = msgspec.msgpack.decode(head.buffer, type=_Answer)
            if answer.call == self._num_calls:
                return body.buffer if answer.is_ok else None
        self.disconnect()
        self._away_until = self._clock() + _AWAY_S
        return None

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> "zmq.Socket[bytes]":
        if self._socket is None:
            self._socket = self._context.socket(zmq.DEALER)
            self._socket.set(zmq.LINGER, 0)
            self._socket.connect(self._address)
        return self._socket
