"""A client's copy of one group: its tree, the requests that run here, and what the server has.

The texts themselves lie in the client's GroupStore. Not thread-safe but for the tree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seer.drafting.group_store import MAX_REQUEST, GroupStore
from seer.drafting.messages import GroupHave, GroupKey, TokenUpdate, pack_tokens, unpack_tokens
from seer.drafting.suffix_tree import Cursor, SuffixTree


@dataclass(slots=True, kw_only=True, eq=False)
class DraftRequest:
    """A request that runs at this client; made by `DraftClient.open`."""

    key: GroupKey
    request: int
    cursor: Cursor
    """Its standing match in the group's tree."""
    sequence: int
    """Its sequence in the tree; another than `request` when others wrote another text for it."""
    num_tokens: int
    """Output tokens that the client has of it."""

    @property
    def is_shared(self) -> bool:
        """Whether its text goes to the server."""
        return self.sequence == self.request


@dataclass(slots=True)
class GroupCopy:
    """One group. See the module."""

    key: GroupKey
    prompt: NDArray[np.int32]
    tree: SuffixTree
    store: GroupStore
    ttl_s: float
    expires: float
    """Time from which it is dropped, unless a request runs."""
    open: dict[int, DraftRequest] = field(default_factory=dict)
    at_server: dict[int, int] = field(default_factory=dict)
    """Tokens of each request that the server has, as far as is known."""
    is_at_server: bool = False
    """Whether the server has named this group since the connection was last lost."""
    num_private: int = 0
    """Sequences of the tree beside the shared texts, numbered from MAX_REQUEST."""

    def add_earlier(self, texts: Iterable[NDArray[np.int32]]) -> None:
        """Let the tree learn texts of none of the group's requests."""
        for text in texts:
            self.tree.append(self._private_sequence(), 0, text)

    def texts(self) -> list[NDArray[np.int32]]:
        """What the group's requests have written."""
        return [self.store.text(self.key, request) for request in self.store.lengths(self.key)]

    def start(self, request: int, output: NDArray[np.int32]) -> DraftRequest:
        """Make the request one that runs here, with exactly `output` behind it.

        Its text in the copy is the beginning of `output` as a rule. It is longer or another when an
        instance died with tokens that it had given to the server and not to its owner. The request
        then goes on in a sequence of its own, that its match may not run ahead of it.
        """
        known = self.store.text(self.key, request)
        sequence = request
        if not np.array_equal(known, output[: len(known)]):
            sequence = self._private_sequence()
        cursor = self.tree.cursor(sequence)
        made = DraftRequest(
            key=self.key, request=request, cursor=cursor, sequence=sequence, num_tokens=0
        )
        self.extend(made, 0, output)
        self.open[request] = made
        return made

    def extend(
        self, running: DraftRequest, prev_num_tokens: int, tokens: NDArray[np.int32]
    ) -> None:
        """Append to a request that runs here. Raises InvalidInput over a gap or bad tokens."""
        if running.is_shared:
            update = TokenUpdate(
                key=self.key,
                request=running.request,
                prev_num_tokens=prev_num_tokens,
                token_bytes=pack_tokens(tokens),
            )
            self.store.append(update)
        running.num_tokens = self.tree.append(running.sequence, prev_num_tokens, tokens)

    def have(self) -> GroupHave:
        """What is here. Of requests that run here nothing is wanted: nobody knows them better."""
        lengths = self.store.lengths(self.key)
        for request in self.open:
            lengths[request] = max(lengths.get(request, 0), self.at_server.get(request, 0))
        return GroupHave(key=self.key, ttl_s=self.ttl_s, lengths=lengths)

    def pending(self, update_tokens: int, max_tokens: int) -> list[TokenUpdate]:
        """What the server lacks, `max_tokens` at most; counted as sent.

        Of running requests multiples of `update_tokens`, of others all.
        """
        if not self.is_at_server:
            return []
        updates = []
        for request, due in self._due(update_tokens).items():
            start = self.at_server.get(request, 0)
            stop = start + min(due, max_tokens)
            if start < stop:
                updates.append(self.store.piece(self.key, request, start, stop))
                self.at_server[request] = stop
                max_tokens -= stop - start
        return updates

    def has_pending(self, update_tokens: int) -> bool:
        """Whether `pending` would give anything."""
        return self.is_at_server and bool(self._due(update_tokens))

    def take(self, update: TokenUpdate) -> None:
        """Take what another client wrote.

        Raises InvalidInput when it does not fit, which a server of ours does not send.
        """
        tokens = unpack_tokens(update.token_bytes)
        end = update.prev_num_tokens + len(tokens)
        self.at_server[update.request] = max(end, self.at_server.get(update.request, 0))
        if update.request not in self.open:
            self.store.append(update)
            self.tree.append(update.request, update.prev_num_tokens, tokens)

    def learn(self, behind: Mapping[int, int]) -> None:
        """The server has answered; it has so little of these."""
        self.is_at_server = True
        self.at_server.update(behind)

    def forget_server(self) -> None:
        """The server is away, and may come back empty."""
        self.is_at_server = False

    def _private_sequence(self) -> int:
        self.num_private += 1
        return MAX_REQUEST + self.num_private - 1

    def _due(self, update_tokens: int) -> dict[int, int]:
        """Tokens to push of each request that has any."""
        found = {}
        for request, length in self.store.lengths(self.key).items():
            due = max(0, length - self.at_server.get(request, 0))
            if request in self.open:
                due -= due % update_tokens
            if due:
                found[request] = due
        return found
