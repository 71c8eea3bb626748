"""Responses with their rewards, as they are saved."""

import msgspec


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One line of samples.jsonl."""

    step: int
    item: str
    task: str
    member: int
    prompt: str
    response: str
    num_tokens: int
    finish_reason: str
    reward: float
    is_correct: bool | None
    """Whether the verifier gave a full score; None: it was not asked."""
    error: str | None = None
    """Why the reward call gave none."""


class RewardError(msgspec.Struct, frozen=True, kw_only=True):
    """One line of rewards_errors.jsonl."""

    step: int
    item: str
    task: str
    member: int
    prompt: str
    response: str
    why: str
    reward: float
    """What it counts as."""
