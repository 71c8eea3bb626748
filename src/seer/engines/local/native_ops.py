"""The C++ operations (csrc/cpu_ops), called with addresses of contiguous CPU tensors."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seer.engines.local._cpu_ops import (
    BLOCK_TOKENS,
    SAMPLE_ROW_BYTES,
    CpuOps,
    supported_isas,
)
from seer.engines.local.batch import StepBatch
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import ModelConfig
from seer.engines.local.sampling import SAMPLE_ROW, SampleParams
from seer.engines.local.spec import BLOCK_TOKENS as SPEC_BLOCK_TOKENS
from seer.engines.local.weights import LayerWeights
from seer.engines.serving.step_model import Draws


class NativeOps:
    """Operations on a CPU, for float32 and bfloat16.

    torch is imported before the native module, whose OpenMP then is the one torch has loaded:
    one pool of threads, not two that fight over the same cores.
    """

    layout = "cpu-transposed"

    def __init__(
        self, config: ModelConfig, cache: KVCache, rope: Tensor, isa: str | None = None
    ) -> None:
        """`isa` names an instruction set (`supported_isas()`); None takes the best."""
        assert BLOCK_TOKENS == SPEC_BLOCK_TOKENS  # noqa: S101 - built against the same constant
        assert SAMPLE_ROW.itemsize == SAMPLE_ROW_BYTES  # noqa: S101 - likewise
        memory = cache.memory
        self._ops = CpuOps(
            isa=isa or supported_isas()[0],
            bfloat16=memory.dtype == torch.bfloat16,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            scale=config.head_dim**-0.5,
            eps=config.rms_norm_eps,
        )
        self._attention_size = config.num_heads * config.head_dim
        self._memory = memory
        self._rope = rope
        layer_bytes = cache.layer_elements * memory.element_size()
        self._layer_kv = [memory.data_ptr() + i * layer_bytes for i in range(config.num_layers)]
        self._block_stride = config.num_layers * cache.layer_elements
        self._batch: StepBatch | None = None

    def begin(self, batch: StepBatch) -> None:
        """Start a step; the batch's tensors stay alive until the next one."""
        self._batch = batch
        self._ops.set_batch(
            batch.num_rows,
            batch.num_seqs,
            batch.positions.data_ptr(),
            batch.slots.data_ptr(),
            batch.seen.data_ptr(),
            batch.also_seen.data_ptr(),
            batch.row_seq.data_ptr(),
            batch.query_start.data_ptr(),
            batch.block_table.data_ptr(),
            batch.block_table.shape[1],
        )

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMS norm."""
        out = torch.empty_like(x)
        rows, dim = x.shape
        self._ops.add_rms_norm(rows, dim, x.data_ptr(), 0, weight.data_ptr(), out.data_ptr())
        return out

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
        """Residual addition in place, then RMS norm."""
        out = torch.empty_like(x)
        rows, dim = x.shape
        self._ops.add_rms_norm(
            rows, dim, x.data_ptr(), residual.data_ptr(), weight.data_ptr(), out.data_ptr()
        )
        return out

    def attend(self, layer: int, weights: LayerWeights, qkv: Tensor) -> Tensor:
        """Rotary, KV write and paged attention in one call."""
        out = torch.empty(qkv.shape[0], self._attention_size, dtype=qkv.dtype)
        self._ops.attend(
            self._layer_kv[layer],
            self._block_stride,
            qkv.data_ptr(),
            self._rope.data_ptr(),
            0 if weights.q_norm is None else weights.q_norm.data_ptr(),
            0 if weights.k_norm is None else weights.k_norm.data_ptr(),
            out.data_ptr(),
        )
        return out

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """Gated activation."""
        rows, dim = gate_up.shape[0], gate_up.shape[1] // 2
        out = torch.empty(rows, dim, dtype=gate_up.dtype)
        self._ops.silu_mul(rows, dim, gate_up.data_ptr(), out.data_ptr())
        return out

    def move_tokens(self, moves: NDArray[np.int32]) -> None:
        """Copy keys and values of single tokens, in all layers."""
        self._ops.move_tokens(
            self._memory.data_ptr(),
            self._block_stride,
            self._memory.shape[2],
            self._memory.shape[1],
            len(moves),
            np.ascontiguousarray(moves).ctypes.data,
        )

    def sample(self, logits: Tensor, params: SampleParams) -> Draws:
        """Inverse-CDF draw of every row, rows in parallel."""
        rows, vocab = logits.shape
        tokens = np.empty(rows, dtype=np.int32)
        logprobs = np.empty(rows, dtype=np.float32)
        self._ops.sample(
            rows,
            vocab,
            logits.data_ptr(),
            params.rows.ctypes.data,
            params.raw,
            tokens.ctypes.data,
            logprobs.ctypes.data,
        )
        return Draws(token_ids=tokens.tolist(), logprobs=logprobs.tolist())
