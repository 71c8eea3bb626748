"""Settings of the controller, and what they let in."""

import msgspec

from seer.errors import InvalidInput
from seer.kvpool.blocks import footprint
from seer.scheduling.placement import PlacementConfig
from seer.scheduling.policies import ORACLE, make_policy
from seer.types import EngineInfo, GroupSpec


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decisions depend on besides events; written into the head of each trace.

    Raises InvalidInput on a bad value.
    """

    policy: str = "divided"
    """One of `scheduling.policies.POLICY_NAMES`."""
    chunk_size: int | None = 8192
    """Most tokens of a chunk; None: a request runs in one chunk. Static policies never divide.
    # Paper silent: the size. 8192 is what readers of its first version report."""
    placement: PlacementConfig = PlacementConfig()
    num_host_slots: int = 0
    """KV blocks that the pool's host tier holds; 0: no pool, idle KV is dropped, not moved."""
    num_disk_slots: int = 0
    """KV blocks that the pool's disk tier holds."""
    num_remote_slots: int = 0
    """KV blocks that the pool may keep in its remote tier."""

    def __post_init__(self) -> None:
        make_policy(self.policy)
        if self.chunk_size is not None and self.chunk_size < 1:
            raise InvalidInput("chunk_size", self.chunk_size, "allowed: an integer >= 1, or none")
        for field in ("num_host_slots", "num_disk_slots", "num_remote_slots"):
            if getattr(self, field) < 0:
                raise InvalidInput(field, getattr(self, field), "allowed: an integer >= 0")


def check_group(group: GroupSpec, config: ControllerConfig) -> None:
    """Raise InvalidInput for a group that is malformed, or whose lengths the policy lacks."""
    for field in ("group_size", "num_prompt_tokens", "max_tokens"):
        if getattr(group, field) < 1:
            raise InvalidInput(field, getattr(group, field), "allowed: an integer >= 1")
    lengths = group.known_lengths
    if not lengths and config.policy != ORACLE:
        return
    if len(lengths) != group.group_size:
        allowed = f"allowed: one length a member ({group.group_size})"
        if config.policy == ORACLE:
            allowed += "; the oracle policy needs them"
        raise InvalidInput("known_lengths", lengths, allowed)
    if any(not 1 <= length <= group.max_tokens for length in lengths):
        allowed = f"allowed: from 1 to max_tokens ({group.max_tokens})"
        raise InvalidInput("known_lengths", lengths, allowed)


def check_fits(group: GroupSpec, info: EngineInfo) -> None:
    """Raise InvalidInput unless a request of the group can run, alone, up to its limit."""
    num_tokens = group.num_prompt_tokens + group.max_tokens
    if num_tokens > info.max_context_tokens:
        left = info.max_context_tokens - group.num_prompt_tokens
        allowed = f"allowed: at most {left} after a prompt of {group.num_prompt_tokens} tokens"
        raise InvalidInput("max_tokens", group.max_tokens, f"{allowed} (the model's context)")
    needed = footprint(group.num_prompt_tokens, 0, group.max_tokens, info.block_size)
    num_blocks = needed.prompt + needed.own
    if num_blocks > info.num_blocks:
        allowed = (
            f"allowed: at least {num_blocks * info.block_size} for a prompt of "
            f"{group.num_prompt_tokens} tokens and max_tokens {group.max_tokens}"
        )
        raise InvalidInput("kv_tokens", info.kv_capacity_tokens, allowed)
