"""What a decoder step does between its matrix products, behind one small interface.

`NativeOps` (C++, CPU) is what runs here; `TorchOps` is plain torch for any device, and the
reference that tests hold the native one against.
"""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seer.engines.local.batch import StepBatch
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import ModelConfig
from seer.engines.local.sampling import SampleParams
from seer.engines.local.weights import LayerWeights
from seer.engines.serving.step_model import Draws


class Ops(Protocol):
    """Operations of one model on one device; `begin` fixes the step that `attend` works on."""

    layout: str
    """Name of the KV layout inside a block: blocks travel only between equal layouts."""

    def begin(self, batch: StepBatch) -> None:
        """Start a step."""

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMS norm of x [rows, hidden]."""

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
        """`residual += x` in place, then its RMS norm."""

    def attend(self, layer: int, weights: LayerWeights, qkv: Tensor) -> Tensor:
        """Rotary, KV written to its blocks, causal attention. qkv -> [rows, heads * head_dim]."""

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up for gate_up [rows, 2 * intermediate]."""

    def move_tokens(self, moves: NDArray[np.int32]) -> None:
        """Copy the KV of single tokens, in order.

        moves [count, 4]: source block, offset in it, target block, offset in it.
        """

    def sample(self, logits: Tensor, params: SampleParams) -> Draws:
        """Draw one token a row of logits [rows, vocab]."""


def make_ops(config: ModelConfig, cache: KVCache, rope: Tensor, device: torch.device) -> Ops:
    """The operations for a device."""
    if device.type == "cpu":
        from seer.engines.local.native_ops import NativeOps  # noqa: PLC0415 - built module

        return NativeOps(config, cache, rope)
    from seer.engines.local.torch_ops import TorchOps  # noqa: PLC0415 - the other branch

    return TorchOps(config, cache, rope)
