"""The default model in tests: its directory and transformers' own float32 forward of it."""

from functools import cache
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from seer.engines.local.default_model import default_model_dir


@cache
def model_dir() -> Path:
    """Prepared once (downloaded and converted on a fresh machine)."""
    return default_model_dir()


@cache
def reference_model() -> PreTrainedModel:
    """Transformers' model in float32."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        model_dir(), dtype=torch.float32
    ).eval()
    return model


@torch.inference_mode()
def reference_logits(prompt: list[int], output: list[int]) -> torch.Tensor:
    """Logits that each output token was drawn from, by one full forward: [len(output), vocab]."""
    logits = reference_model()(torch.tensor([prompt + output])).logits[0]
    kept: torch.Tensor = logits[len(prompt) - 1 : -1]
    return kept
