"""The trainer's own log-probabilities of tokens that were sampled elsewhere."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from seer.trainers.trl_trainer import Trainer

if TYPE_CHECKING:
    from torch import Tensor

_LOGITS_BYTES = 256 * 2**20
"""Memory for the logits of one forward pass, if they are in float32."""


@dataclass(frozen=True, slots=True)
class TrainerForward:
    """A forward pass without gradients, as the trainer computes (dtype, autocast), no dropout."""

    trainer: Trainer
    model: Any
    temperature: float
    """Of the log-probabilities, which are unfiltered."""

    @classmethod
    def of(cls, trainer: Trainer, temperature: float) -> Self:
        """The trainer's model as it is, whatever wraps it."""
        model = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
        return cls(trainer, model, temperature)

    def in_float64(self) -> Self:
        """With a copy of the model in float64, but for what its code does in float32 (norms)."""
        return replace(self, model=copy.deepcopy(self.model).double())

    def logprobs(
        self, prompt: Sequence[int], completions: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Log-probability of each completion's tokens after the prompt.

        One pass; several when the logits would take too much memory.
        """
        longest = max(len(completion) for completion in completions)
        rows = max(1, _LOGITS_BYTES // (4 * self.model.config.vocab_size * longest))
        logprobs = []
        for start in range(0, len(completions), rows):
            logprobs += self._pass(prompt, completions[start : start + rows])
        return logprobs

    def _pass(
        self, prompt: Sequence[int], completions: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        import torch  # noqa: PLC0415 - heavy, optional

        longest = max(len(completion) for completion in completions)
        # Padding on the right is behind every token asked for: causal attention needs no mask.
        padded = [[*prompt, *c, *[0] * (longest - len(c))] for c in completions]
        accelerator = self.trainer.accelerator
        token_ids = torch.tensor(padded, device=accelerator.device)
        with torch.no_grad(), accelerator.autocast(), _evaluating(self.model):
            output = self.model(input_ids=token_ids, use_cache=False, logits_to_keep=longest + 1)
        logits: Tensor = output.logits[:, :-1]
        scaled = (logits if logits.dtype == torch.float64 else logits.float()) / self.temperature
        drawn = token_ids[:, len(prompt) :, None]
        logprobs = scaled.gather(-1, drawn)[..., 0] - scaled.logsumexp(-1)
        return [row[: len(c)] for row, c in zip(logprobs.tolist(), completions, strict=True)]


def uses_float32(trainer: Trainer) -> bool:
    """Whether the trainer's forward pass is in float32 throughout."""
    is_plain = trainer.accelerator.mixed_precision == "no"
    return is_plain and all(p.element_size() == 4 for p in trainer.model.parameters())  # noqa: PLR2004


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """No dropout meanwhile; every module gets its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training
