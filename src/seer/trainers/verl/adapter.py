"""What verl's training worker holds of Seer's engine: it hands the new weights over.

verl gathers each weight on every rank of a replica in turn; the adapter collects them, writes them
once to shared memory as safetensors, and the server maps that file, which is then removed.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.utils import ensure_async_iterator

from seer.errors import InvalidInput
from seer.trainers.verl.replica import server_name
from seer.trainers.verl.settings import engine_spec, read_settings
from seer.trainers.weight_files import WeightFiles


class SeerAdapter(BaseRollout):  # type: ignore[misc]  # verl is not typed
    """One a rank: a replica of Seer's engine has one rank."""

    def __init__(
        self,
        config: Any,
        model_config: Any,
        device_mesh: Any,
        replica_rank: int = -1,
    ) -> None:
        """Raises InvalidInput for keys that the engine cannot serve."""
        super().__init__(config, model_config, device_mesh)
        settings = read_settings(self.config)
        engine_spec(self.config, self.model_config, settings, settings.device or "cpu").describe()
        self._weights_dir = Path(settings.weights_dir) if settings.weights_dir else None
        self._is_tied = bool(self.model_config.hf_config.tie_word_embeddings)
        self._replica_rank = replica_rank if replica_rank >= 0 else int(os.environ["RANK"])
        self._handle: Any = None

    async def resume(self, tags: Sequence[str]) -> None:
        """Before new weights, and before generation."""
        await self._server().wake_up.remote(tags=list(tags))

    async def release(self) -> None:
        """Leave the device to the trainer."""
        await self._server().sleep.remote()

    async def update_weights(
        self,
        weights: Any,
        wire_format: str = "named_tensors",
        *,
        global_steps: int | None = None,
        peft_config: Any = None,
        **_unused: Any,
    ) -> None:
        """Give the server full weights, in Hugging Face names.

        Raises InvalidInput for deltas and adapters, and when there is no room to write them.
        """
        if wire_format != "named_tensors":
            allowed = "allowed: named_tensors (checkpoint_engine.backend=naive) with name=seer"
            raise InvalidInput("wire_format", wire_format, allowed)
        if peft_config is not None:
            raise InvalidInput("peft_config", "a LoRA adapter", "allowed: none with name=seer")
        tensors = {
            name: tensor.detach().to("cpu") async for name, tensor in ensure_async_iterator(weights)
        }
        if self._is_tied:  # one tensor under two names
            tensors.pop("lm_head.weight", None)
        files = WeightFiles(self._weights_dir)
        try:
            path = files.write(0, tensors)
            del tensors
            await self._server().load_weights.remote(str(path), global_steps)
        finally:
            files.close()

    def _server(self) -> Any:
        if self._handle is None:  # the server starts after the adapter
            self._handle = ray.get_actor(server_name(self._replica_rank))
        return self._handle
