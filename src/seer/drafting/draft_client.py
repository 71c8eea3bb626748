"""The draft client of an instance: drafts from its own trees, kept current in the background.

Nothing that the engine's step calls waits for the server. A thread pushes what the requests here
have written and pulls what others have; without a server it goes on with what it has, and when one
comes back, empty or not, both sides bring each other up to date. Paper appendix A.2, steps 1 to 4.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from seer.drafting.draft_server import DraftLink
from seer.drafting.earlier_texts import EarlierTexts
from seer.drafting.group_copy import DraftRequest, GroupCopy
from seer.drafting.group_store import MAX_REQUEST, GroupStore
from seer.drafting.messages import Fetched, GroupKey, TokenUpdate
from seer.drafting.suffix_tree import (
    Drafts,
    DraftSettings,
    SuffixTree,
    TokenIds,
    speculate_batch,
)
from seer.errors import InvalidInput

logger = logging.getLogger(__name__)

_TAKE_TOKENS = 256
"""Tokens taken from others under one hold of the locks: some 0.2 ms of the step's time at most."""


_FEW_TOKENS = 16
"""Up to so many tokens are checked one by one."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a draft client. Raises InvalidInput on a value out of bounds."""

    vocab_size: int
    """Token ids from 0 to this - 1 are taken."""
    max_depth: int = 64
    """See SuffixTree."""
    # Paper silent: a fixed number of tokens a request is batched, which is not said.
    update_tokens: int = 16
    """Tokens of a running request in an update, or a multiple of it; the rest goes at its end."""
    # Paper silent on the period.
    fetch_period_s: float = 0.1
    """Time between two exchanges with the server."""
    max_push_tokens: int = 65_536
    """Tokens pushed in one exchange at most."""
    warm_start: bool = False
    """Begin a group's tree with what earlier weights wrote here to the same prompt."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "update_tokens", "max_push_tokens"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, getattr(self, name), "allowed: an integer >= 1")
        if not (math.isfinite(self.fetch_period_s) and self.fetch_period_s > 0):
            raise InvalidInput("fetch_period_s", self.fetch_period_s, "allowed: a number > 0")


class ClientStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a client."""

    num_pushed_tokens: int = 0
    num_pulled_tokens: int = 0
    num_exchanges: int = 0
    num_lost: int = 0
    """Exchanges that failed because the server was away."""
    num_refused: int = 0
    """Updates from the server that did not fit; passed over."""


class DraftClient:
    """Drafts for the requests of one instance. Thread-safe.

    `start` begins the background exchange; without it (tests, simulation) call `sync`.
    """

    def __init__(
        self,
        link: DraftLink,
        settings: ClientSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A client without groups; takes the link over, and closes it."""
        self._link = link
        self._settings = settings
        self._clock = clock
        self._store = GroupStore(vocab_size=settings.vocab_size)
        self._groups: dict[GroupKey, GroupCopy] = {}
        self._earlier = EarlierTexts()
        self._lock = threading.Lock()
        self._stats = ClientStats()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._exchange, name="seer-draft", daemon=True)

    # ---------------------------------------------------------------- the engine's side

    def register_group(
        self, key: GroupKey, prompt_token_ids: TokenIds, *, ttl_s: float = 600.0
    ) -> None:
        """Serve a group from now on, until `ttl_s` after it was last used (paper Table 6).

        Running requests keep it beyond that. A known group stays as it is, its time starts anew.

        Raises:
            InvalidInput: `ttl_s` is not a finite number > 0, or a token is not of the vocabulary.
        """
        prompt = self._as_tokens(prompt_token_ids)
        with self._lock:
            now = self._clock()
            self._store.register(key, ttl_s, now)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = self._new_group(key, prompt, ttl_s)
            group.ttl_s = ttl_s
            group.expires = now + ttl_s

    def open(self, key: GroupKey, request: int, output_token_ids: TokenIds = ()) -> DraftRequest:
        """A request begins to run here, or goes on here after `output_token_ids`.

        Raises:
            InvalidInput: The group is not registered, the request's number is negative or huge, it
                runs here already, or a token is not of the vocabulary.
        """
        output = self._as_tokens(output_token_ids)
        with self._lock:
            group = self._group(key)
            if not 0 <= request < MAX_REQUEST or request in group.open:
                raise InvalidInput(
                    "request", request, "allowed: 0 to 2^62 - 1, one that does not run here yet"
                )
            return group.start(request, output)

    def append(self, running: DraftRequest, prev_num_tokens: int, token_ids: TokenIds) -> int:
        """Append new output tokens; returns the tokens of the request afterwards. Idempotent.

        Raises:
            InvalidInput: Tokens before these are missing, a token is not of the vocabulary, or the
                request has ended here.
        """
        tokens = self._as_tokens(token_ids)
        with self._lock:
            self._running_group(running).extend(running, prev_num_tokens, tokens)
            return running.num_tokens

    def speculate(
        self,
        running: Sequence[DraftRequest],
        max_nodes: int | NDArray[np.int32],
        settings: DraftSettings,
    ) -> Drafts:
        """Draft for a batch (paper Table 6, `batch_speculate`); waits for the trees' locks only.

        Raises InvalidInput when `max_nodes` is negative or not one for each request.
        """
        return speculate_batch([each.cursor for each in running], max_nodes, settings)

    def end(self, running: DraftRequest) -> None:
        """The request no longer runs here: it has finished, or goes on elsewhere.

        Its text stays for its siblings. A request that has ended already is ignored.
        """
        with self._lock:
            group = self._groups.get(running.key)
            if group is not None and group.open.get(running.request) is running:
                del group.open[running.request]
                group.expires = self._clock() + group.ttl_s

    def drop_group(self, key: GroupKey) -> None:
        """Forget a group here at once, its running requests too; the server's copy expires."""
        with self._lock:
            self._drop(key)

    @property
    def stats(self) -> ClientStats:
        """Counts so far."""
        with self._lock:
            return self._stats

    @property
    def group_keys(self) -> list[GroupKey]:
        """Groups that are served."""
        with self._lock:
            return list(self._groups)

    # ---------------------------------------------------------------- the exchange

    def start(self) -> None:
        """Begin the background exchange."""
        self._thread.start()

    def close(self) -> None:
        """End the exchange, after a last one, and close the link."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._link.close()

    def sync(self) -> bool:
        """One exchange: push, then pull. Returns whether both sides had no more to say.

        Raises ConnectionError when the server is away; nothing is lost then.
        """
        try:
            with self._lock:
                self._expire()
                updates = self._pending()
            if updates:
                self._link.update(updates)
            with self._lock:
                haves = [group.have() for group in self._groups.values()]
            fetched = self._link.fetch(haves)
        except ConnectionError:
            with self._lock:
                for group in self._groups.values():
                    group.forget_server()
                self._count(num_lost=1)
            raise
        self._take(fetched)
        with self._lock:
            self._count(num_exchanges=1, num_pushed_tokens=_num_tokens(updates))
            return fetched.is_complete and not any(
                group.has_pending(self._settings.update_tokens) for group in self._groups.values()
            )

    def _exchange(self) -> None:
        """The thread: exchanges at the period, and at once while a side has more."""
        was_away = False
        while not self._stop.wait(self._settings.fetch_period_s):
            was_away = self._exchange_all(was_away=was_away)
        if not was_away:
            self._exchange_all(was_away=was_away)

    def _exchange_all(self, *, was_away: bool) -> bool:
        """Exchange until nothing is left, a few times at most; returns whether it is away."""
        try:
            for _ in range(8):
                if self.sync():
                    break
        except ConnectionError as error:
            if not was_away:
                logger.warning("the draft server is away, drafts go on without it: %s", error)
            return True
        if was_away:
            logger.info("the draft server is back")
        return False

    def _expire(self) -> None:
        now = self._clock()
        for key, group in list(self._groups.items()):
            if not group.open and group.expires <= now:
                self._drop(key)

    def _new_group(self, key: GroupKey, prompt: NDArray[np.int32], ttl_s: float) -> GroupCopy:
        tree = SuffixTree(max_depth=self._settings.max_depth)
        if len(prompt):
            tree.set_prompt(prompt)
        group = GroupCopy(key, prompt, tree, self._store, ttl_s, expires=math.inf)
        group.add_earlier(self._earlier.texts(prompt, key.weight_version))
        return group

    def _drop(self, key: GroupKey) -> None:
        group = self._groups.pop(key, None)
        if group is not None and self._settings.warm_start:
            self._earlier.keep(group.prompt, key.weight_version, group.texts())
        self._store.drop(key)

    def _pending(self) -> list[TokenUpdate]:
        """Updates to push."""
        updates: list[TokenUpdate] = []
        room = self._settings.max_push_tokens
        for group in self._groups.values():
            pending = group.pending(self._settings.update_tokens, room)
            updates += pending
            room -= _num_tokens(pending)
        return updates

    def _take(self, fetched: Fetched) -> None:
        for delta in fetched.deltas:
            with self._lock:
                group = self._groups.get(delta.key)
                if group is None:  # dropped meanwhile
                    continue
                group.learn(delta.behind)
            for update in delta.updates:
                self._take_pieces(group, update)

    def _take_pieces(self, group: GroupCopy, update: TokenUpdate) -> None:
        """Piece by piece, so that a step never waits for long."""
        step = 4 * _TAKE_TOKENS
        for start in range(0, len(update.token_bytes), step):
            piece = msgspec.structs.replace(
                update,
                prev_num_tokens=update.prev_num_tokens + start // 4,
                token_bytes=update.token_bytes[start : start + step],
            )
            with self._lock:
                if self._groups.get(group.key) is not group:
                    return
                try:
                    group.take(piece)
                except InvalidInput as error:
                    self._count(num_refused=1)
                    logger.warning("passed over: %s", error)
                    return
                self._count(num_pulled_tokens=len(piece.token_bytes) // 4)

    def _count(self, **more: int) -> None:
        added = {name: getattr(self._stats, name) + count for name, count in more.items()}
        self._stats = msgspec.structs.replace(self._stats, **added)

    # ---------------------------------------------------------------- checks

    def _group(self, key: GroupKey) -> GroupCopy:
        group = self._groups.get(key)
        if group is None:
            raise InvalidInput("key", str(key), "allowed: a registered group, not yet expired")
        group.expires = self._clock() + group.ttl_s
        return group

    def _running_group(self, running: DraftRequest) -> GroupCopy:
        group = self._group(running.key)
        if group.open.get(running.request) is not running:
            raise InvalidInput("request", running.request, "allowed: one that runs here")
        return group

    @property
    def _allowed_tokens(self) -> str:
        return f"allowed: a flat list of ids from 0 to {self._settings.vocab_size - 1}"

    def _as_tokens(self, token_ids: TokenIds) -> NDArray[np.int32]:
        """(n,) int32. Raises InvalidInput unless all are ids of the vocabulary."""
        if _are_few_integers(token_ids):
            # A step's tokens of one request: NumPy takes longer to start than to look at these.
            if min(token_ids) >= 0 and max(token_ids) < self._settings.vocab_size:
                return np.array(token_ids, np.int32)
            raise InvalidInput("token_ids", token_ids, self._allowed_tokens)
        array = np.asarray(token_ids)
        if array.size == 0:
            return np.empty(0, np.int32)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidInput("token_ids", token_ids, self._allowed_tokens)
        if array.min() < 0 or array.max() >= self._settings.vocab_size:
            raise InvalidInput("token_ids", token_ids, self._allowed_tokens)
        return np.ascontiguousarray(array, np.int32)


def _are_few_integers(token_ids: TokenIds) -> bool:
    is_list = isinstance(token_ids, list) and 0 < len(token_ids) <= _FEW_TOKENS
    return is_list and all(type(token) is int for token in token_ids)


def _num_tokens(updates: Iterable[TokenUpdate]) -> int:
    return sum(len(update.token_bytes) for update in updates) // 4
