"""The owner's end of the connection to a hosted engine."""

import zmq
import zmq.asyncio


class Channel:
    """A bound ZeroMQ socket to which one hosted engine connects. Needs a running event loop."""

    def __init__(self, endpoint: str) -> None:
        """Bind: `ipc://path`, or `tcp://ip:*` for a free port. Raises zmq.ZMQError if it cannot."""
        self._context = zmq.asyncio.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.set(zmq.SNDHWM, 0)  # no limit: a send is taken at once, so calls keep order
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.set(zmq.LINGER, 0)
        self.socket.bind(endpoint)

    @property
    def address(self) -> str:
        """Where the hosted engine connects to."""
        return self.socket.get_string(zmq.LAST_ENDPOINT)

    def close(self) -> None:
        """Drop the connection and what was not sent."""
        self.socket.close()
        self._context.term()
