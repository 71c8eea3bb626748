"""As much of TRL's GRPOTrainer as Seer reads, over a real model and tokenizer."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class FakeAccelerator:
    """One process, no mixed precision, nothing wrapped."""

    num_processes = 1
    mixed_precision = "no"
    device = torch.device("cpu")

    def unwrap_model(self, model: Any, *, keep_torch_compile: bool) -> Any:  # noqa: ARG002
        return model

    def autocast(self) -> nullcontext[None]:
        return nullcontext()


class FakeTrainer:
    """The trainer of a model directory, at step 0, in training mode."""

    def __init__(self, directory: Path) -> None:
        self.args = SimpleNamespace(seed=5, generation_kwargs=None)
        self.state = SimpleNamespace(global_step=0)
        self.model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        self.model.train()
        self.accelerator: Any = FakeAccelerator()
        self.processing_class: Any = AutoTokenizer.from_pretrained(directory)
        self.chat_template: str | None = None
        self.chat_template_kwargs: dict[str, Any] = {}
        self.tools: list[Any] | None = []
        self.eos_token_ids = [1]
        self.num_generations = 4
        self.num_generations_eval = 2
        self.max_completion_length: int | None = 12
        self.temperature = 1.0
        self.top_p = 1.0
        self.top_k = 0
        self.min_p: float | None = None
        self.repetition_penalty = 1.0
        self.logged: dict[str, float] = {}

    def step(self) -> None:
        """An optimiser step: other weights, in place."""
        self.state.global_step += 1
        torch.manual_seed(self.state.global_step)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))

    def _log_metric(self, name: str, value: float) -> None:
        self.logged[name] = value
