"""SkyRL's generator interface (0.3.0): what goes in, what comes out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypedDict


@dataclass
class TrajectoryID:
    instance_id: str
    repetition_id: int


class GeneratorInput(TypedDict):
    prompts: list[list[dict[str, str]]]
    env_classes: list[str]
    env_extras: list[dict[str, Any]] | None
    sampling_params: dict[str, Any] | None
    trajectory_ids: list[TrajectoryID] | None
    batch_metadata: Any


class GeneratorOutput(TypedDict):
    prompt_token_ids: list[list[int]]
    response_ids: list[list[int]]
    rewards: list[float] | list[list[float]]
    loss_masks: list[list[int]]
    stop_reasons: list[str] | None
    rollout_metrics: dict[str, Any] | None
    rollout_logprobs: list[list[float]] | None


class GeneratorInterface(ABC):
    @abstractmethod
    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        """Trajectories in the order of the batch."""
