"""Follows vLLM's batch from step to step and drafts for it. Imports no vLLM.

vLLM tells a proposer what each row of its batch has sampled, and no more: no beginnings, no ends.
So what came and went is told from the rows themselves: their names, and how long they have become.
A step in which vLLM did not ask (a request near the model's greatest length stops all drafting) is
made up for at the next.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.engines.serving.drafting import Drafter
from seer.errors import InvalidInput
from seer.types import Chunk, RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request that has come, as vLLM's worker knows it."""

    chunk: Chunk
    """With the output so far, what has just been sampled included."""
    max_length: int
    """Tokens, the prompt's included, at which it ends at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """vLLM's batch after a step, one row a request."""

    names: Sequence[str]
    """vLLM's own ids."""
    sampled: Sequence[Sequence[int]]
    """Tokens of the step; none: the prompt is not through yet."""
    lengths: Sequence[int]
    """Tokens of each row, those included."""
    token_ids: NDArray[np.int32]
    """(rows or more, at least as wide as the longest)"""

    def tokens_since(self, row: int, length: int) -> Sequence[int]:
        """A row's tokens after its first `length`."""
        sampled = self.sampled[row]
        if length + len(sampled) == self.lengths[row]:
            return sampled
        tokens: list[int] = self.token_ids[row, length : self.lengths[row]].tolist()
        return tokens


@dataclass(slots=True)
class _Followed:
    """A request that the drafter knows."""

    request_id: RequestId
    length: int
    """Tokens that the drafter knows of."""
    max_length: int
    num_guesses: int = 0
    """Of its last draft."""


class DraftLoop:
    """Drafts for the requests of one vLLM worker. Not thread-safe."""

    def __init__(self, drafter: Drafter, max_draft_tokens: int, *, uniform: bool) -> None:
        """`uniform`: every request gets `max_draft_tokens` guesses, or nobody gets one."""
        self._drafter = drafter
        self._max_draft_tokens = max_draft_tokens
        self._uniform = uniform
        self._followed: dict[str, _Followed] = {}
        self._refused: set[str] = set()
        """Requests that the drafter did not take."""
        self._names: Sequence[str] = ()
        self._drafted: list[str] = []
        """The requests of the last draft, in its order."""

    def step(
        self, batch: Batch, arrival: Callable[[int], Arrival], alive: Container[str]
    ) -> list[list[int]]:
        """Learn what the step has brought, and guess ahead: a chain for each row, maybe empty.

        `arrival` tells of the request in a row; `alive` holds the names of requests that have not
        ended, in the batch or not.
        """
        if batch.names != self._names:
            self._names = list(batch.names)
            self._drop_ended(alive)
        rows = [row for row, tokens in enumerate(batch.sampled) if tokens]
        self._learn(batch, rows)
        running = [row for row in rows if self._extend(batch, row, arrival)]
        return self._draft(batch, running)

    def close(self) -> None:
        """Let go of whatever the drafter is connected to."""
        self._drafter.close()

    def _drop_ended(self, alive: Container[str]) -> None:
        present = set(self._names)
        for name in [each for each in self._followed if each not in present and each not in alive]:
            self._drafter.end(self._followed.pop(name).request_id)
        self._refused &= present

    def _learn(self, batch: Batch, rows: Sequence[int]) -> None:
        """What became of the last draft: of a chain as many guesses were right as tokens more."""
        if not any(each.num_guesses for each in self._followed.values()):
            return
        outcome = {}
        for row in rows:
            name = batch.names[row]
            followed = self._followed.get(name)
            count = len(batch.sampled[row])
            if followed is not None and followed.length + count == batch.lengths[row]:
                outcome[name] = (followed.num_guesses, min(count - 1, followed.num_guesses))
        results = [outcome.get(name, (0, 0)) for name in self._drafted]
        self._drafter.learn(
            [verified for verified, _ in results], [range(right) for _, right in results]
        )
        for followed in self._followed.values():
            followed.num_guesses = 0

    def _extend(self, batch: Batch, row: int, arrival: Callable[[int], Arrival]) -> bool:
        """Let the drafter know a row's new tokens; returns whether it knows the request."""
        name, length = batch.names[row], batch.lengths[row]
        followed = self._followed.get(name)
        if followed is None:
            return name not in self._refused and self._begin(name, length, arrival(row))
        if length > followed.length:
            self._drafter.extend(followed.request_id, batch.tokens_since(row, followed.length))
            followed.length = length
        return True

    def _begin(self, name: str, length: int, came: Arrival) -> bool:
        """Begin to follow a request; one that the drafter cannot take gets no guesses."""
        request_id = came.chunk.request_id
        for other, followed in list(self._followed.items()):
            if followed.request_id == request_id:
                self._drafter.end(request_id)
                del self._followed[other]
        try:
            self._drafter.begin(came.chunk)
        except InvalidInput:
            self._refused.add(name)
            return False
        self._followed[name] = _Followed(request_id, length, came.max_length)
        return True

    def _draft(self, batch: Batch, running: Sequence[int]) -> list[list[int]]:
        guesses: list[list[int]] = [[] for _ in batch.names]
        rows = [r for r in running if batch.lengths[r] < self._followed[batch.names[r]].max_length]
        self._drafted = [batch.names[row] for row in rows]
        if not rows:
            return guesses
        followed = [self._followed[name] for name in self._drafted]
        depths = [min(self._max_draft_tokens, f.max_length - f.length - 1) for f in followed]
        drafts = self._drafter.draft(
            [each.request_id for each in followed], depths, sum(each.length for each in followed)
        )
        for row, each, depth, draft in zip(rows, followed, depths, drafts, strict=True):
            guesses[row] = list(draft.token_ids[:depth])
            each.num_guesses = len(guesses[row])
        return self._filled(guesses, batch) if self._uniform else guesses

    def _filled(self, guesses: list[list[int]], batch: Batch) -> list[list[int]]:
        """As many guesses for every row that decodes, if any has one: the last token fills up."""
        if not any(guesses):
            return guesses
        return [
            own + [tokens[-1]] * (self._max_draft_tokens - len(own)) if tokens else []
            for own, tokens in zip(guesses, batch.sampled, strict=True)
        ]
