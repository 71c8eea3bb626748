"""Which blocks of which request are read from the pool and written to it. Imports no vLLM.

Runs in vLLM's scheduler. A request that starts takes what the pool has of the whole blocks before
its last token, behind what vLLM's own prefix cache has. One that ends by length or is cut short may
go on elsewhere: its whole blocks are written to the pool, those of generated tokens included; they
are reserved before anybody hears of the end, so an instance where the request goes on waits for
them. One that ends by a stop token leaves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from seer.kvpool.hashed_pool import HashedPool
from seer.kvpool.keys import chain_keys


@dataclass(frozen=True, slots=True)
class Copy:
    """Blocks of one request and the keys of their contents, pairwise."""

    block_ids: list[int]
    keys: list[bytes]


@dataclass(slots=True)
class StepCopies:
    """What the worker copies in one step, by vLLM's request id."""

    loads: dict[str, Copy] = field(default_factory=dict)
    saves: dict[str, Copy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Match:
    first_block: int
    keys: list[bytes]


class CopyPlanner:
    """The scheduler's side of the connector."""

    def __init__(self, pool: HashedPool, block_tokens: int, fingerprint: bytes) -> None:
        self._pool = pool
        self._block_tokens = block_tokens
        self._fingerprint = fingerprint
        self._matches: dict[str, _Match] = {}
        self._step = StepCopies()

    def match(
        self, name: str, token_ids: Sequence[int], salt: str | None, num_computed: int
    ) -> int | None:
        """Tokens behind the first `num_computed` that the pool has; None: ask again in a moment.

        The last token is never among them: it must be computed.
        """
        first = num_computed // self._block_tokens
        usable = (len(token_ids) - 1) // self._block_tokens
        keys = self._keys(token_ids[: usable * self._block_tokens], salt)[first:]
        found = self._pool.find(keys)
        if found.is_coming:
            return None
        self._matches[name] = _Match(first, keys[: found.num_blocks])
        return found.num_blocks * self._block_tokens

    def load(self, name: str, block_ids: Sequence[int], num_tokens: int) -> None:
        """A request has been given its blocks, and takes `num_tokens` of its match."""
        match = self._matches.pop(name, None)
        if match is None or num_tokens == 0:
            return
        count = num_tokens // self._block_tokens
        end = match.first_block + count
        self._step.loads[name] = Copy(list(block_ids[match.first_block : end]), match.keys[:count])

    def finish(
        self,
        name: str,
        token_ids: Sequence[int],
        salt: str | None,
        block_ids: Sequence[int],
        num_computed: int,
    ) -> bool:
        """A request that may go on elsewhere has ended; whether its blocks are to be saved.

        `num_computed` tokens have KV; a step may have computed guesses behind the text, too.
        """
        covered = min(num_computed, len(token_ids) - 1)
        num_blocks = min(covered // self._block_tokens, len(block_ids))
        keys = self._keys(token_ids[: num_blocks * self._block_tokens], salt)
        missing = self._pool.missing(keys)
        if not missing:
            return False
        copy = Copy([block_ids[i] for i in missing], [keys[i] for i in missing])
        self._pool.reserve(copy.keys)
        self._step.saves[name] = copy
        return True

    def forget(self, name: str) -> None:
        """A request has ended."""
        self._matches.pop(name, None)

    def take_step(self) -> StepCopies:
        """What the next step copies."""
        step, self._step = self._step, StepCopies()
        return step

    def _keys(self, token_ids: Sequence[int], salt: str | None) -> list[bytes]:
        return chain_keys(
            token_ids, self._block_tokens, self._fingerprint + b"/" + (salt or "").encode()
        )
