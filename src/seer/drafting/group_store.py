"""The output tokens of groups, merged from many sources, and what one side lacks of them.

Client and server keep one each. A store only ever grows at the end of a request's text, so "how
many tokens of each request" says exactly what somebody has: that is the version from which a delta
is taken. Appends are idempotent; of two texts for the same place, the first stays. Pure: time is an
argument. Not thread-safe.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seer.drafting.messages import GroupDelta, GroupKey, TokenUpdate, unpack_tokens
from seer.errors import InvalidInput

_TOKEN_BYTES = 4
MAX_REQUEST = 2**62
"""Requests have numbers below this."""
MAX_VOCAB_SIZE = 2**31
_FEW_TOKENS = 16
"""Up to so many tokens are looked at one by one."""


@dataclass(slots=True)
class _Group:
    expires: float
    texts: dict[int, bytearray] = field(default_factory=dict)


class GroupStore:
    """Texts of groups. See the module."""

    def __init__(self, *, vocab_size: int = MAX_VOCAB_SIZE) -> None:
        """An empty store that takes token ids from 0 to `vocab_size` - 1.

        Raises InvalidInput when there can be no such vocabulary.
        """
        if not 1 <= vocab_size <= MAX_VOCAB_SIZE:
            raise InvalidInput("vocab_size", vocab_size, f"allowed: 1 to {MAX_VOCAB_SIZE}")
        self._vocab_size = vocab_size
        self._groups: dict[GroupKey, _Group] = {}

    def __contains__(self, key: GroupKey) -> bool:
        return key in self._groups

    @property
    def num_groups(self) -> int:
        """Groups that have not expired."""
        return len(self._groups)

    @property
    def num_tokens(self) -> int:
        """Tokens of all texts."""
        texts = (text for group in self._groups.values() for text in group.texts.values())
        return sum(len(text) for text in texts) // _TOKEN_BYTES

    def register(self, key: GroupKey, ttl_s: float, now: float) -> None:
        """Keep a group, new or known, until `now` + `ttl_s` at least (paper `register_group`).

        Raises InvalidInput when `ttl_s` is not a finite number > 0.
        """
        if not (math.isfinite(ttl_s) and ttl_s > 0):
            raise InvalidInput("ttl_s", ttl_s, "allowed: a finite number > 0")
        group = self._groups.setdefault(key, _Group(expires=now + ttl_s))
        group.expires = max(group.expires, now + ttl_s)

    def expire(self, now: float) -> list[GroupKey]:
        """Drop the groups whose time is over; returns them."""
        over = [key for key, group in self._groups.items() if group.expires <= now]
        for key in over:
            del self._groups[key]
        return over

    def drop(self, key: GroupKey) -> None:
        """Forget a group; an unknown one is ignored."""
        self._groups.pop(key, None)

    def append(self, update: TokenUpdate) -> int:
        """Append what is new of `update`; returns the tokens of the request afterwards.

        Raises InvalidInput when the group is unknown, a token is not of the vocabulary, or tokens
        before these are missing; nothing has changed then.
        """
        group = self._group(update.key)
        if not 0 <= update.request < MAX_REQUEST:
            raise InvalidInput("request", update.request, "allowed: 0 to 2^62 - 1")
        self._check_tokens(update.token_bytes)
        text = group.texts.get(update.request, bytearray())
        num_tokens = len(text) // _TOKEN_BYTES
        if not 0 <= update.prev_num_tokens <= num_tokens:
            raise InvalidInput(
                "prev_num_tokens",
                update.prev_num_tokens,
                f"allowed: 0 to {num_tokens}, the tokens of request {update.request}",
            )
        text += update.token_bytes[len(text) - update.prev_num_tokens * _TOKEN_BYTES :]
        group.texts[update.request] = text
        return len(text) // _TOKEN_BYTES

    def lengths(self, key: GroupKey) -> dict[int, int]:
        """Tokens of each request. Raises InvalidInput when the group is unknown."""
        texts = self._group(key).texts
        return {request: len(text) // _TOKEN_BYTES for request, text in texts.items()}

    def text(self, key: GroupKey, request: int) -> NDArray[np.int32]:
        """(n,) a copy of a request's tokens; empty when nothing is known of it.

        Raises InvalidInput when the group is unknown.
        """
        return unpack_tokens(bytes(self._group(key).texts.get(request, b"")))

    def piece(self, key: GroupKey, request: int, start: int, stop: int) -> TokenUpdate:
        """Tokens `start` to `stop` of a request, as an update.

        Raises InvalidInput when the group is unknown.
        """
        text = self._group(key).texts.get(request, bytearray())
        token_bytes = bytes(text[start * _TOKEN_BYTES : stop * _TOKEN_BYTES])
        return TokenUpdate(key=key, request=request, prev_num_tokens=start, token_bytes=token_bytes)

    def delta(self, key: GroupKey, have: Mapping[int, int], max_tokens: int) -> GroupDelta:
        """What lies beyond `have` (at most `max_tokens` of it), and where the store has less.

        Raises InvalidInput when the group is unknown or a length is negative.
        """
        if any(length < 0 for length in have.values()):
            raise InvalidInput("lengths", dict(have), "allowed: 0 or more")
        known = self.lengths(key)
        updates = []
        for request, length in known.items():
            start = have.get(request, 0)
            stop = min(length, start + max_tokens)
            if start < stop:
                updates.append(self.piece(key, request, start, stop))
                max_tokens -= stop - start
        behind = {r: known.get(r, 0) for r, length in have.items() if known.get(r, 0) < length}
        return GroupDelta(key=key, updates=tuple(updates), behind=behind)

    def _group(self, key: GroupKey) -> _Group:
        group = self._groups.get(key)
        if group is None:
            raise InvalidInput("key", str(key), "allowed: a registered group, not yet expired")
        return group

    def _check_tokens(self, token_bytes: bytes) -> None:
        is_whole = len(token_bytes) % _TOKEN_BYTES == 0
        token_ids = unpack_tokens(token_bytes) if is_whole else None
        if token_ids is not None and self._are_of_vocabulary(token_ids):
            return
        shown = token_bytes if token_ids is None else token_ids.tolist()
        allowed = f"allowed: ids from 0 to {self._vocab_size - 1}, 4 bytes each"
        raise InvalidInput("token_ids", shown, allowed)

    def _are_of_vocabulary(self, token_ids: NDArray[np.int32]) -> bool:
        if 0 < len(token_ids) <= _FEW_TOKENS:  # NumPy takes longer to start than to look at these
            few: list[int] = token_ids.tolist()
            return min(few) >= 0 and max(few) < self._vocab_size
        least, most = token_ids.min(initial=0), token_ids.max(initial=0)
        return bool(least >= 0 and most < self._vocab_size)
