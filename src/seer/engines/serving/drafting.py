"""What a step loop asks of whatever guesses tokens ahead, and the setting that chooses it.

A draft changes the speed only: the step loop draws every token itself and keeps of a draft what it
has drawn (`verification.py`). So a drafter may be wrong, behind or empty, never harmful.
"""

from collections.abc import Sequence
from typing import Protocol

from seer.errors import InvalidInput
from seer.types import Chunk, RequestId

OFF = "off"
MAX_DRAFT_TOKENS = 32
"""Most tokens that one step may verify for a request, besides the one it draws anyway."""

_FIXED = "fixed:"


class Drafter(Protocol):
    """Guesses how requests go on. One step loop owns it; nothing here need be thread-safe."""

    def begin(self, chunk: Chunk) -> None:
        """A chunk has come: its prompt and earlier output are known from now on."""

    def draft(self, request_ids: Sequence[RequestId], max_tokens: Sequence[int]) -> list[list[int]]:
        """A chain of guesses for each request, best first where there is a choice.

        `max_tokens` limits each; what is longer is cut by the caller.
        """

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        """The request has generated these tokens."""

    def end(self, request_id: RequestId) -> None:
        """The request's chunk is over, here; a later one may come."""

    def drop_group(self, group: int) -> None:
        """Forget a group. Requests of it that still run get no more drafts."""


class NoDrafts:
    """Drafting is off: every step feeds one token a request."""

    def begin(self, chunk: Chunk) -> None:
        """Nothing to learn."""

    def draft(self, request_ids: Sequence[RequestId], max_tokens: Sequence[int]) -> list[list[int]]:
        """An empty draft for each."""
        del max_tokens
        return [[] for _ in request_ids]

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        """Nothing to learn."""

    def end(self, request_id: RequestId) -> None:
        """Nothing to forget."""

    def drop_group(self, group: int) -> None:
        """Nothing to forget."""


def draft_length(drafting: str) -> int:
    """Most tokens of a draft that the setting `drafting` asks for; 0 is off.

    Raises InvalidInput unless it is `off` or `fixed:N` with N in 1..MAX_DRAFT_TOKENS.
    """
    if drafting == OFF:
        return 0
    number = drafting.removeprefix(_FIXED)
    is_number = drafting != number and number.isascii() and number.isdecimal()
    if not is_number or not 1 <= int(number) <= MAX_DRAFT_TOKENS:
        allowed = f"allowed: {OFF}, or {_FIXED}N with N from 1 to {MAX_DRAFT_TOKENS}"
        raise InvalidInput("drafting", drafting, allowed)
    return int(number)
