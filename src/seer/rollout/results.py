"""What a rollout gives back: finished groups, and its progress meanwhile."""

import msgspec

from seer.types import FinishReason, Metadata


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One response."""

    member: int
    output_token_ids: list[int]
    """End token included."""
    text: str
    logprobs: list[float]
    """Of each output token under the policy (`raw` or `processed` as the engine is set)."""
    finish_reason: FinishReason
    started_s: float
    """When its first chunk started, in seconds since the call."""
    finished_s: float


class GroupResult(msgspec.Struct, frozen=True, kw_only=True):
    """All responses to one prompt."""

    prompt_id: str
    group_id: int
    """Number of the group in the session."""
    prompt_token_ids: list[int]
    metadata: Metadata
    completions: list[Completion]
    """By member."""


class InstanceProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One instance at one moment."""

    instance_id: int
    is_alive: bool
    num_in_flight: int
    used_kv_tokens: int
    """As it last reported."""
    kv_capacity_tokens: int


class RolloutProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A session at one moment."""

    elapsed_s: float
    """Since the session's first submission."""
    num_groups: int
    num_finished_groups: int
    num_requests: int
    num_finished_requests: int
    num_output_tokens: int
    """Streamed ones included."""
    tail_s: float | None
    """Seconds since nine tenths of the requests had finished; None before."""
    preemptions: int
    acceptance_length: float
    """Tokens a request gained by a decode step; 1 without drafting, 0 before any was counted."""
    drafted_tokens: int = 0
    """Guesses that were verified."""
    accepted_tokens: int = 0
    kv_bytes_moved: int = 0
    """To the pool, from it, and within it."""
    instances_lost: int
    instances: tuple[InstanceProgress, ...]
