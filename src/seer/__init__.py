"""Seer: fast, lossless, strictly synchronous rollouts for LLM reinforcement learning."""

from seer.errors import InvalidInput, SeerError
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.prompts import PromptItem
from seer.rollout.results import Completion, GroupResult, RolloutProgress
from seer.rollout.rollout import Rollout
from seer.rollout.sync import SyncRollout
from seer.scheduling.placement import PlacementConfig
from seer.types import FinishReason, SamplingParams, WeightUpdate

__all__ = [
    "Completion",
    "FinishReason",
    "GroupResult",
    "InvalidInput",
    "PlacementConfig",
    "PoolConfig",
    "PromptItem",
    "Rollout",
    "RolloutConfig",
    "RolloutProgress",
    "SamplingParams",
    "SeerError",
    "SyncRollout",
    "WeightUpdate",
]
