"""What a step loop asks of whatever guesses tokens ahead.

A draft changes the speed only: the step loop draws every token itself and keeps of a draft what it
has drawn (`ChunkRun.take`). So a drafter may be wrong, behind or empty, never harmful.
"""

from collections.abc import Sequence
from typing import Protocol

from seer.engines.serving.draft import NO_DRAFT, Draft
from seer.types import Chunk, RequestId


class Drafter(Protocol):
    """Guesses how requests go on. One step loop owns it; nothing here need be thread-safe."""

    def begin(self, chunk: Chunk) -> None:
        """A chunk has come: its prompt and earlier output are known from now on."""

    def draft(
        self, request_ids: Sequence[RequestId], max_depths: Sequence[int], context_tokens: int
    ) -> Sequence[Draft]:
        """Guesses for each request of a step, what is likeliest first.

        Nodes deeper than the request's `max_depths` are cut by the caller, with all that follow
        them. `context_tokens` is the KV that the step reads in all.
        """

    def learn(self, num_verified: Sequence[int], accepted: Sequence[Sequence[int]]) -> None:
        """What became of the drafts of the last `draft`, in its order.

        Of each the number of nodes that were verified, its first ones, and the nodes accepted.
        """

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        """The request has generated these tokens."""

    def end(self, request_id: RequestId) -> None:
        """The request's chunk is over, here; a later one may come."""

    def close(self) -> None:
        """Let go of whatever it is connected to."""


class NoDrafts:
    """Drafting is off: every step feeds one token a request."""

    def begin(self, chunk: Chunk) -> None:
        """Nothing to learn."""

    def draft(
        self, request_ids: Sequence[RequestId], max_depths: Sequence[int], context_tokens: int
    ) -> Sequence[Draft]:
        """An empty draft for each."""
        del max_depths, context_tokens
        return [NO_DRAFT] * len(request_ids)

    def learn(self, num_verified: Sequence[int], accepted: Sequence[Sequence[int]]) -> None:
        """Nothing to learn."""

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        """Nothing to learn."""

    def end(self, request_id: RequestId) -> None:
        """Nothing to forget."""

    def close(self) -> None:
        """Nothing to let go."""
