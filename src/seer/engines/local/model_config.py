"""What the decoder needs to know of a model, read from its Hugging Face `config.json` alone.

No torch, no transformers: `describe()` runs in the driver process, before any weight is loaded.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seer.engines.end_tokens import eos_token_ids
from seer.errors import InvalidInput

FAMILIES = ("llama", "qwen2", "qwen3")
"""`model_type`s whose decoder layer is known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Shape of a decoder-only model (RMS norm, rotary, grouped-query attention, gated MLP)."""

    family: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_context_tokens: int
    rms_norm_eps: float
    tied_embeddings: bool
    eos_token_ids: tuple[int, ...]
    fingerprint: str
    """Hash of the configuration and of the weight files' names, sizes and times."""

    @property
    def kv_elements_per_token(self) -> int:
        """Key and value elements of one token in one layer."""
        return 2 * self.num_kv_heads * self.head_dim


def read_model_config(model: str) -> ModelConfig:
    """Read and check a model directory. Raises InvalidInput when it is missing or foreign."""
    directory = Path(model)
    path = directory / "config.json"
    if not directory.is_dir():
        raise InvalidInput("model", model, "allowed: a directory in Hugging Face format")
    if not path.is_file():
        raise InvalidInput("model", model, "allowed: a directory that holds a config.json")
    try:
        raw = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("model", model, f"its config.json is not JSON ({error})") from error
    if not isinstance(raw, dict):
        raise InvalidInput("model", model, "its config.json is not an object")
    _check_supported(model, raw)
    _check_weights(model, directory)
    return _from_json(model, raw, directory)


def _check_supported(model: str, raw: dict[str, Any]) -> None:
    family = raw.get("model_type")
    if family not in FAMILIES:
        allowed = ", ".join(FAMILIES)
        raise InvalidInput("model", model, f"its model_type is {family!r}; supported: {allowed}")
    if raw.get("hidden_act", "silu") != "silu":
        raise InvalidInput("model", model, f"hidden_act {raw['hidden_act']!r}; supported: silu")
    if raw.get("use_sliding_window") or "sliding_attention" in (raw.get("layer_types") or ()):
        raise InvalidInput("model", model, "it uses sliding-window attention; not supported")
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "linear", "llama3", "yarn"):
        raise InvalidInput(
            "model", model, f"rope type {kind!r}; supported: default, linear, llama3, yarn"
        )
    if raw.get("mlp_bias"):
        raise InvalidInput("model", model, "mlp_bias is set; not supported")


def _check_weights(model: str, directory: Path) -> None:
    if not any(directory.glob("*.safetensors")):
        raise InvalidInput("model", model, "allowed: a directory with *.safetensors weights")


def _from_json(model: str, raw: dict[str, Any], directory: Path) -> ModelConfig:
    try:
        num_heads = int(raw["num_attention_heads"])
        hidden_size = int(raw["hidden_size"])
        head_dim = int(raw.get("head_dim") or hidden_size // num_heads)
        config = ModelConfig(
            family=raw["model_type"],
            num_layers=int(raw["num_hidden_layers"]),
            hidden_size=hidden_size,
            intermediate_size=int(raw["intermediate_size"]),
            num_heads=num_heads,
            num_kv_heads=int(raw.get("num_key_value_heads") or num_heads),
            head_dim=head_dim,
            vocab_size=int(raw["vocab_size"]),
            max_context_tokens=int(raw["max_position_embeddings"]),
            rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
            tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
            eos_token_ids=eos_token_ids(raw, directory),
            fingerprint=_fingerprint(directory),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput("model", model, f"its config.json lacks or spoils {error}") from error
    if config.head_dim % 16 or config.hidden_size % 16 or config.intermediate_size % 16:
        raise InvalidInput("model", model, "head, hidden and MLP sizes must be multiples of 16")
    if config.num_heads % config.num_kv_heads:
        raise InvalidInput("model", model, "num_key_value_heads must divide num_attention_heads")
    return config


def _fingerprint(directory: Path) -> str:
    digest = hashlib.blake2b((directory / "config.json").read_bytes(), digest_size=16)
    for path in sorted(directory.glob("*.safetensors")):
        stat = path.stat()
        digest.update(f"{path.name}:{stat.st_size}:{stat.st_mtime_ns}".encode())
    return digest.hexdigest()
