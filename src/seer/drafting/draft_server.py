"""The draft server: merges the outputs of each group from all instances (the paper's DGDS).

It keeps texts and hands out deltas; trees are the clients' own. `DraftServer` is the embedded form,
for threads of one process; `server_process` hosts one for many processes. Paper appendix A.2.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from seer.drafting.group_store import MAX_VOCAB_SIZE, GroupStore
from seer.drafting.messages import Fetched, GroupDelta, GroupHave, TokenUpdate
from seer.errors import InvalidInput

logger = logging.getLogger(__name__)

MAX_ANSWER_TOKENS = 65_536
"""Tokens of one answer: a quarter of a megabyte, so that no message holds a client up for long."""


class DraftLink(Protocol):
    """How a client reaches the server. Used by one thread at a time."""

    def update(self, updates: Sequence[TokenUpdate]) -> None:
        """Send new tokens. Raises ConnectionError when the server is away."""
        ...

    def fetch(self, groups: Sequence[GroupHave]) -> Fetched:
        """Ask for what is new. Raises ConnectionError when the server is away."""
        ...

    def close(self) -> None:
        """End the connection; the server goes on."""
        ...


class ServerStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a server."""

    num_groups: int
    num_tokens: int
    num_refused: int
    """Updates and fetches of a group that were not allowed; each is logged and passed over."""


class DraftServer:
    """The server as an object of this process; also a DraftLink. Thread-safe."""

    def __init__(
        self,
        *,
        vocab_size: int = MAX_VOCAB_SIZE,
        clock: Callable[[], float] = time.monotonic,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
    ) -> None:
        """An empty server. Raises InvalidInput on a bad vocabulary size."""
        self._store = GroupStore(vocab_size=vocab_size)
        self._clock = clock
        self._max_answer_tokens = max_answer_tokens
        self._lock = threading.Lock()
        self._num_refused = 0

    def update(self, updates: Sequence[TokenUpdate]) -> None:
        """Take what is new and allowed of each update (paper Table 5, `update_cst`).

        An update of an unknown group, with foreign tokens or after a gap is counted and passed
        over: the client's next fetch tells it where to go on.
        """
        with self._lock:
            self._store.expire(self._clock())
            for update in updates:
                try:
                    self._store.append(update)
                except InvalidInput as error:
                    self._refuse(error)

    def fetch(self, groups: Sequence[GroupHave]) -> Fetched:
        """Register or keep `groups`, and answer what each lacks (paper Table 5, `fetch_cst`).

        A group that is named with a bad TTL or length is counted and left out of the answer.
        """
        deltas: list[GroupDelta] = []
        room = self._max_answer_tokens
        with self._lock:
            now = self._clock()
            self._store.expire(now)
            for have in groups:
                try:
                    self._store.register(have.key, have.ttl_s, now)
                    delta = self._store.delta(have.key, have.lengths, room)
                except InvalidInput as error:
                    self._refuse(error)
                    continue
                room -= sum(len(update.token_bytes) for update in delta.updates) // 4
                deltas.append(delta)
        return Fetched(call=0, deltas=deltas, is_complete=room > 0)

    def close(self) -> None:
        """Nothing to end: there is no connection."""

    @property
    def stats(self) -> ServerStats:
        """Counts so far."""
        with self._lock:
            return ServerStats(
                num_groups=self._store.num_groups,
                num_tokens=self._store.num_tokens,
                num_refused=self._num_refused,
            )

    def _refuse(self, error: InvalidInput) -> None:
        self._num_refused += 1
        logger.warning("passed over: %s", error)
