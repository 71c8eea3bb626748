"""Tiny random models in Hugging Face format: each supported family, seconds to make."""

from pathlib import Path

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB = 160
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": 1,
    "bos_token_id": None,
    "pad_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}

TINY_MODELS = ("llama", "llama-untied-llama3-rope", "qwen2", "qwen3")


def make_tiny_model(name: str, directory: Path, *, vocab_size: int = VOCAB) -> PreTrainedModel:
    """Save one of TINY_MODELS to `directory` in float32; returns transformers' own model of it."""
    torch.manual_seed(7)
    model: PreTrainedModel
    sizes = {**SIZES, "vocab_size": vocab_size}
    match name:
        case "llama":
            model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=True))
        case "llama-untied-llama3-rope":
            config = LlamaConfig(**sizes, tie_word_embeddings=False, rope_parameters=LLAMA3_ROPE)
            model = LlamaForCausalLM(config)
        case "qwen2":
            model = Qwen2ForCausalLM(Qwen2Config(**sizes, tie_word_embeddings=True))
        case "qwen3":
            config3 = Qwen3Config(**sizes, head_dim=32, tie_word_embeddings=False)
            model = Qwen3ForCausalLM(config3)
        case _:
            raise ValueError(name)
    with torch.no_grad():  # spread weights, biases and norms so that each of them matters
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.2) if parameter.ndim > 1 else parameter.uniform_(0.5, 1.5)
    model.eval()
    model.save_pretrained(directory)
    return model
