"""What travels between verl's agent loop workers and Seer's router."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One of the responses to a prompt, as verl names it."""

    uid: str
    """verl's name of the prompt: the group."""
    order: int
    """Orders the trajectories of a group."""
    step: int
    """Training step; keys the draws of Seer's own engine, as `is_validation` does."""
    is_validation: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One `generate` of a trajectory's loop."""

    trajectory: Trajectory
    prompt_ids: list[int]
    params: dict[str, Any]
    """verl's sampling parameters, as the loop gave them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What a turn came to."""

    token_ids: list[int]
    logprobs: list[float]
    global_steps: int | None
    """Version of the weights, where the servers name it."""
    num_preempted: int | None
    """None: not known."""
    num_cached_tokens: int | None
    """Prompt tokens that the first call found in its server's cache; None: not known."""
