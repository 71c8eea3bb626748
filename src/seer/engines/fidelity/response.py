"""What an engine has sampled, as the check takes it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Tokens sampled after a prompt."""

    prompt_token_ids: Sequence[int]
    token_ids: Sequence[int]
    logprobs: Sequence[float]
    """As the engine reported them, processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What one arm came to."""

    arm: str
    responses: list[Response]
    """Seed by seed; of each the members of the first prompt, those of the second, ..."""
    num_drafted: int
    num_accepted: int
    num_moves: int
    """Chunks that ran on another instance than the one before."""
