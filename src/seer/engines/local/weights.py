"""Reading a model's safetensors into fused, packed weights."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from seer.engines.local.linear import Linear
from seer.engines.local.model_config import ModelConfig
from seer.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One decoder layer. q, k, v are one product; so are gate and up."""

    input_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    output: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """A whole model."""

    embedding: Tensor
    """[vocab, hidden]"""
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    head: Linear


def load_weights(
    path: str, config: ModelConfig, dtype: torch.dtype, device: torch.device
) -> DecoderWeights:
    """Load a directory of safetensors in Hugging Face names.

    Raises InvalidInput when a tensor is missing or has another shape than the configuration says.
    """
    with ExitStack() as stack:
        source = _TensorSource(Path(path), dtype, device, stack)
        embedding = source.get("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
        head = embedding
        if not config.tied_embeddings:
            head = source.get("lm_head.weight", config.vocab_size, config.hidden_size)
        return DecoderWeights(
            embedding=embedding,
            layers=tuple(_load_layer(source, config, i) for i in range(config.num_layers)),
            final_norm=source.get("model.norm.weight", config.hidden_size),
            head=Linear(head),
        )


def _load_layer(source: "_TensorSource", config: ModelConfig, index: int) -> LayerWeights:
    prefix = f"model.layers.{index}."
    hidden, mlp = config.hidden_size, config.intermediate_size
    q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    heads = (("q_proj", q_size), ("k_proj", kv_size), ("v_proj", kv_size))
    attention = prefix + "self_attn."
    biases = [source.find(f"{attention}{name}.bias", size) for name, size in heads]
    bias = torch.cat([b for b in biases if b is not None]) if biases[0] is not None else None
    qkv = torch.cat([source.get(f"{attention}{name}.weight", size, hidden) for name, size in heads])
    gate_up = torch.cat(
        [source.get(f"{prefix}mlp.{name}.weight", mlp, hidden) for name in ("gate_proj", "up_proj")]
    )
    return LayerWeights(
        input_norm=source.get(prefix + "input_layernorm.weight", hidden),
        qkv=Linear(qkv, bias),
        q_norm=source.find(attention + "q_norm.weight", config.head_dim),
        k_norm=source.find(attention + "k_norm.weight", config.head_dim),
        output=Linear(
            source.get(attention + "o_proj.weight", hidden, q_size),
            source.find(attention + "o_proj.bias", hidden),
        ),
        post_norm=source.get(prefix + "post_attention_layernorm.weight", hidden),
        gate_up=Linear(gate_up),
        down=Linear(source.get(prefix + "mlp.down_proj.weight", hidden, mlp)),
    )


class _TensorSource:
    """Tensors by name over one or several safetensors files."""

    def __init__(
        self, path: Path, dtype: torch.dtype, device: torch.device, stack: ExitStack
    ) -> None:
        self._path = path
        self._dtype = dtype
        self._device = device
        self._files: dict[str, Any] = {}
        for name, handle in _open_all(path, stack):
            self._files[name] = handle

    def find(self, name: str, *shape: int) -> Tensor | None:
        """The tensor in the engine's dtype and device, or None when the model has none."""
        return self.get(name, *shape) if name in self._files else None

    def get(self, name: str, *shape: int) -> Tensor:
        """The tensor. Raises InvalidInput when it is missing or has another shape."""
        if name not in self._files:
            raise InvalidInput("model", str(self._path), f"its weights lack {name}")
        tensor: Tensor = self._files[name].get_tensor(name)
        if tuple(tensor.shape) != shape:
            raise InvalidInput(
                "model", str(self._path), f"{name} is {tuple(tensor.shape)}, config says {shape}"
            )
        return tensor.to(device=self._device, dtype=self._dtype).contiguous()


def _open_all(path: Path, stack: ExitStack) -> Iterator[tuple[str, Any]]:
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise InvalidInput("model", str(path), "allowed: a directory with *.safetensors weights")
    for file in files:
        handle = stack.enter_context(safe_open(file, framework="pt"))
        for name in handle.keys():  # noqa: SIM118 - not a mapping
            yield name, handle
