"""The trainer's weights on the instances: written, loaded and told apart by version."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seer.errors import InvalidInput
from seer.rollout.sync import SyncRollout
from seer.trainers.trl_trainer import Trainer
from seer.trainers.weight_files import WeightFiles
from seer.types import WeightUpdate

if TYPE_CHECKING:
    from torch import Tensor

_ADAPTER_PREFIX = "base_model.model."
"""How PEFT names the weights of a model that it has wrapped."""


class PolicySync:
    """Gives the instances of a session new weights whenever the trainer's have changed."""

    def __init__(self, files: WeightFiles) -> None:
        self._files = files
        self._seen: tuple[object, ...] | None = None
        self.version = 0
        """Of the weights that the instances have; 0: those that they were launched with."""

    def update(self, rollout: SyncRollout, trainer: Trainer) -> float:
        """Seconds of a weight update; 0 when nothing has changed since the last one.

        Raises InvalidInput when the weights do not fit the engine's model or the disk.
        """
        tensors = policy_tensors(trainer)
        state = _state(trainer, tensors)
        if state == self._seen:
            return 0.0
        began = time.perf_counter()
        version = self.version + 1
        path = self._files.write(version, tensors)
        try:
            rollout.update_weights(WeightUpdate(version=version, path=str(path)))
        except BaseException:
            self._files.keep_only(self.version)
            raise
        self.version, self._seen = version, state
        self._files.keep_only(version)
        return time.perf_counter() - began


def policy_tensors(trainer: Trainer) -> dict[str, "Tensor"]:
    """The policy's weights by Hugging Face name; a tensor under two names (tied) only once.

    Raises InvalidInput for a model that PEFT has wrapped.
    """
    model = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    if any(name.startswith(_ADAPTER_PREFIX) for name in tensors):
        allowed = "allowed: a model without PEFT adapters; merge them (merge_and_unload) first"
        raise InvalidInput("model", type(model).__name__, allowed)
    return tensors


def _state(trainer: Trainer, tensors: Mapping[str, Any]) -> tuple[object, ...]:
    """Differs after an optimiser step, and after weights were put in place without one."""
    # torch counts the in-place changes of a tensor: a best checkpoint loaded at the end of
    # training is seen although global_step stands still.
    counts = tuple((id(tensor), tensor._version) for tensor in tensors.values())  # noqa: SLF001
    return (trainer.state.global_step, *counts)
