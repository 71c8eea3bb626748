"""Sizes of a model that vLLM is to run, read from its Hugging Face `config.json` alone.

Whether vLLM knows the architecture is vLLM's to say, when the engine starts; here is only what the
rollout must know before. No torch, no transformers, no vLLM.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seer.engines.end_tokens import eos_token_ids
from seer.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What KV and texts of a model need."""

    kv_elements_per_token: int
    """Key and value elements of one token, all layers."""
    vocab_size: int
    max_context_tokens: int
    eos_token_ids: tuple[int, ...]
    tied_embeddings: bool


def read_model_shape(model: str) -> ModelShape:
    """Read a model directory. Raises InvalidInput when it is missing or lacks a size."""
    directory = Path(model)
    if not (directory / "config.json").is_file():
        raise InvalidInput("model", model, "allowed: a directory that holds a config.json")
    if not any(directory.glob("*.safetensors")):
        raise InvalidInput("model", model, "allowed: a directory with *.safetensors weights")
    try:
        whole = json.loads((directory / "config.json").read_text())
        config = whole.get("text_config", whole)
        return ModelShape(
            kv_elements_per_token=int(config["num_hidden_layers"]) * _elements_a_layer(config),
            vocab_size=int(config["vocab_size"]),
            max_context_tokens=int(config["max_position_embeddings"]),
            eos_token_ids=eos_token_ids(config, directory),
            tied_embeddings=bool(whole.get("tie_word_embeddings", False)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput("model", model, f"its config.json lacks or spoils {error}") from error


def _elements_a_layer(config: dict[str, Any]) -> int:
    """Keys and values; or, with multi-head latent attention, the one latent they are made from."""
    if config.get("kv_lora_rank"):
        return int(config["kv_lora_rank"]) + int(config["qk_rope_head_dim"])
    num_heads = int(config["num_attention_heads"])
    head_dim = int(config.get("head_dim") or config["hidden_size"] // num_heads)
    return 2 * int(config.get("num_key_value_heads") or num_heads) * head_dim
