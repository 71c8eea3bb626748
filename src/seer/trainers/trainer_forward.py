"""The trainer's own log-probabilities of tokens that were sampled elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from seer.trainers.trl_trainer import Trainer

if TYPE_CHECKING:
    from torch import Tensor

_LOGITS_BYTES = 256 * 2**20
"""Memory for the float32 logits of one forward pass."""


def trainer_logprobs(
    trainer: Trainer,
    prompt: Sequence[int],
    completions: Sequence[Sequence[int]],
    temperature: float,
) -> list[list[float]]:
    """Log-probability of each completion's tokens after the prompt, at a temperature, unfiltered.

    One forward pass without gradients, as the trainer computes (its dtype and autocast), without
    dropout; several when the logits would take too much memory.
    """
    vocab = trainer.model.config.vocab_size
    longest = max(len(completion) for completion in completions)
    rows = max(1, _LOGITS_BYTES // (4 * vocab * longest))
    logprobs = []
    for start in range(0, len(completions), rows):
        logprobs += _forward(trainer, prompt, completions[start : start + rows], temperature)
    return logprobs


def uses_float32(trainer: Trainer) -> bool:
    """Whether the trainer's forward pass is in float32 throughout."""
    is_plain = trainer.accelerator.mixed_precision == "no"
    return is_plain and all(p.element_size() == 4 for p in trainer.model.parameters())  # noqa: PLR2004


def _forward(
    trainer: Trainer,
    prompt: Sequence[int],
    completions: Sequence[Sequence[int]],
    temperature: float,
) -> list[list[float]]:
    import torch  # noqa: PLC0415 - heavy, optional

    longest = max(len(completion) for completion in completions)
    # Padding on the right is behind every token that is asked for: causal attention needs no mask.
    padded = [[*prompt, *c, *[0] * (longest - len(c))] for c in completions]
    token_ids = torch.tensor(padded, device=trainer.accelerator.device)
    model = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
    with torch.no_grad(), trainer.accelerator.autocast(), _evaluating(model):
        logits = model(input_ids=token_ids, use_cache=False, logits_to_keep=longest + 1).logits
    scaled: Tensor = logits[:, :-1].float() / temperature
    drawn = token_ids[:, len(prompt) :, None]
    logprobs = scaled.gather(-1, drawn)[..., 0] - scaled.logsumexp(-1)
    return [row[: len(c)] for row, c in zip(logprobs.tolist(), completions, strict=True)]


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
