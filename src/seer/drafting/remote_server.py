"""A draft server in another process, as a client sees it: a DraftLink over ZeroMQ."""

from collections.abc import Sequence

import msgspec
import zmq

from seer.drafting import messages
from seer.drafting.messages import Fetched, GroupHave, TokenUpdate
from seer.errors import InvalidInput


class RemoteServer:
    """The server at a ZeroMQ address, there or not: nothing is sent before the first call.

    For one thread, the client's own. A call that is not answered in time gives the connection up,
    with all that waits on it; the next call makes a new one, so a server that comes back is found.
    """

    def __init__(self, address: str, *, reply_limit_s: float = 1.0) -> None:
        """Raises InvalidInput when `reply_limit_s` is not above 0."""
        if not reply_limit_s > 0:
            raise InvalidInput("reply_limit_s", reply_limit_s, "allowed: a number > 0")
        self._address = address
        self._reply_limit_s = reply_limit_s
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._num_calls = 0

    def update(self, updates: Sequence[TokenUpdate]) -> None:
        """Send new tokens. Raises ConnectionError when the queue is full."""
        self._send(messages.Update(updates=updates))

    def fetch(self, groups: Sequence[GroupHave]) -> Fetched:
        """Ask for what is new. Raises ConnectionError when no answer of ours comes in time."""
        self._num_calls += 1
        socket = self._send(messages.Fetch(call=self._num_calls, groups=groups))
        try:
            while socket.poll(int(self._reply_limit_s * 1000)):
                fetched = messages.decode_fetched(socket.recv())
                if fetched.call == self._num_calls:
                    return fetched
        except msgspec.DecodeError as error:
            self._disconnect()
            raise ConnectionError(f"{self._address} is no draft server: {error}") from error
        self._disconnect()
        raise ConnectionError(f"no answer from {self._address} in {self._reply_limit_s:g} s")

    def close(self) -> None:
        """End the connection. What was sent gets a moment to leave."""
        if self._socket is not None:
            self._socket.close(linger=200)
            self._socket = None
        self._context.term()

    def _send(self, message: messages.Update | messages.Fetch) -> "zmq.Socket[bytes]":
        socket = self._connected()
        try:
            socket.send(messages.encode(message), zmq.NOBLOCK)
        except zmq.Again:
            self._disconnect()
            raise ConnectionError(f"{self._address} takes no messages") from None
        return socket

    def _connected(self) -> "zmq.Socket[bytes]":
        if self._socket is None:
            self._socket = self._context.socket(zmq.DEALER)
            self._socket.set(zmq.LINGER, 0)
            self._socket.connect(self._address)
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
