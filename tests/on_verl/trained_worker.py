"""A worker of verl's hybrid group as a rollout sees it: a model, and the rollout's adapter."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ray
import torch
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.base import get_rollout_class


class TrainedWorker:
    """All ranks, one after the other."""

    def __init__(self, config: Any, num_ranks: int) -> None:
        rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
        model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
        self._model = AutoModelForCausalLM.from_pretrained(model.local_path, dtype=torch.float32)
        adapter = get_rollout_class(rollout.name, rollout.mode)
        self._adapters = []
        for rank in range(num_ranks):
            os.environ["RANK"] = str(rank)
            made = adapter(config=rollout, model_config=model, device_mesh=None)
            self._adapters.append(made)

    async def update_weights(self, global_steps: int) -> None:
        """The calls of verl's ActorRolloutRefWorker."""
        for adapter in self._adapters:
            await adapter.resume(tags=["weights"])
            await adapter.update_weights(
                self._weights(), peft_config=None, base_sync_done=True, global_steps=global_steps
            )
            await adapter.resume(tags=["kv_cache"])

    def step(self) -> None:
        """Change every weight, as an optimiser would."""
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in self._model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))

    def logprobs(self, output: Any) -> torch.Tensor:
        """[rows, responses]: of each response token, by transformers' own forward pass."""
        length = output.batch["responses"].shape[1]
        with torch.no_grad():
            logits = self._model(
                input_ids=output.batch["input_ids"],
                attention_mask=output.batch["attention_mask"],
                position_ids=output.batch["position_ids"],
            ).logits
        of_all = torch.log_softmax(logits[:, -length - 1 : -1].float(), dim=-1)
        return of_all.gather(-1, output.batch["responses"].unsqueeze(-1)).squeeze(-1)

    def _weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self._model.state_dict().items()


def start_worker_group(config: Any, num_ranks: int) -> Any:
    """What replicas read of a RayWorkerGroup."""
    worker = ray.remote(TrainedWorker).options(num_cpus=0).remote(config, num_ranks)
    return SimpleNamespace(workers=[worker] * num_ranks, world_size=num_ranks)
