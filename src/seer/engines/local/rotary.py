"""Rotary angles, taken from transformers' own module of the model's family."""

import torch
from torch import Tensor
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from seer.engines.local.model_config import ModelConfig


def rope_table(model: str, config: ModelConfig, device: torch.device) -> Tensor:
    """Cosines and sines of every position: float32 [max_context_tokens, 2, head_dim / 2].

    transformers repeats the half table over both halves of a head; one half is kept here.
    """
    hf_config = AutoConfig.from_pretrained(model, local_files_only=True)
    match config.family:
        case "llama":
            rotary = LlamaRotaryEmbedding(hf_config)
        case "qwen2":
            rotary = Qwen2RotaryEmbedding(hf_config)
        case _:
            rotary = Qwen3RotaryEmbedding(hf_config)
    positions = torch.arange(config.max_context_tokens)[None]
    cosines, sines = rotary(torch.zeros(1, dtype=torch.float32), positions)
    half = config.head_dim // 2
    table: Tensor = torch.stack([cosines[0, :, :half], sines[0, :, :half]], dim=1)
    return table.to(device=device, dtype=torch.float32).contiguous()
