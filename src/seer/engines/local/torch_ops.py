"""The same operations in plain torch: any device, and the reference for the native ones.

Sequences that feed one token attend together over their padded block tables (static shapes: what a
CUDA graph needs); those that feed several go one by one.
"""

import itertools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from seer.engines.local.batch import StepBatch
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import ModelConfig
from seer.engines.local.sampling import SampleParams, sample_torch
from seer.engines.local.spec import BLOCK_TOKENS
from seer.engines.local.weights import LayerWeights
from seer.engines.serving.step_model import Draws


class TorchOps:
    """Operations with torch alone."""

    layout = "torch"

    def __init__(self, config: ModelConfig, cache: KVCache, rope: Tensor) -> None:
        self._config = config
        self._rope = rope
        shape = (-1, config.num_layers, 2, config.num_kv_heads, BLOCK_TOKENS, config.head_dim)
        self._kv = cache.memory.view(shape)
        self._ragged: StepBatch | None = None
        self._positions = self._slots = self._table = torch.empty(0)

    @property
    def device(self) -> torch.device:
        """Where the KV lies."""
        return self._kv.device

    @property
    def spare_block(self) -> int:
        """The block behind those that are handed out: a place for padding rows."""
        return self._kv.shape[0] - 1

    def begin(self, batch: StepBatch) -> None:
        """Start a step: positions, write slots and block table move to the device."""
        device = self._kv.device
        positions, slots = batch.positions.long(), batch.slots.long()
        blocks = batch.block_table[batch.row_seq.long(), slots // BLOCK_TOKENS].long()
        self.bind(
            positions.to(device),
            (blocks * BLOCK_TOKENS + slots % BLOCK_TOKENS).to(device),
            batch.block_table.long().to(device),
        )
        self._ragged = batch if batch.num_rows != batch.num_seqs else None

    def bind(self, positions: Tensor, slots: Tensor, table: Tensor) -> None:
        """Set a step of one row a sequence: [rows], [rows] (block * 32 + offset), [rows, width]."""
        self._positions, self._slots, self._table = positions, slots, table
        self._ragged = None

    def norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMS norm with float32 statistics, rounded before the weight, as transformers does."""
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self._config.rms_norm_eps)
        return y.to(x.dtype) * weight

    def add_norm(self, x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
        """Residual addition in place, then RMS norm."""
        residual.add_(x)
        return self.norm(residual, weight)

    def attend(self, layer: int, weights: LayerWeights, qkv: Tensor) -> Tensor:
        """Rotary, KV write and attention over gathered blocks."""
        config = self._config
        heads, kv_heads = config.num_heads, config.num_kv_heads
        q, k, v = qkv.view(qkv.shape[0], -1, config.head_dim).split_with_sizes(
            [heads, kv_heads, kv_heads], 1
        )
        q = self._rotate(q if weights.q_norm is None else self.norm(q, weights.q_norm))
        k = self._rotate(k if weights.k_norm is None else self.norm(k, weights.k_norm))
        keys, values = self._kv[:, layer, 0], self._kv[:, layer, 1]
        block, offset = self._slots // BLOCK_TOKENS, self._slots % BLOCK_TOKENS
        keys[block, :, offset] = k
        values[block, :, offset] = v
        if self._ragged is None:
            out = self._attend_rows(q, keys, values, self._table, self._positions)
        else:
            out = self._attend_ragged(q, keys, values, self._ragged)
        return out.reshape(qkv.shape[0], heads * config.head_dim)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """Gated activation."""
        gate, up = gate_up.chunk(2, dim=-1)
        return silu(gate) * up

    def move_tokens(self, moves: NDArray[np.int32]) -> None:
        """Copy keys and values of single tokens, in all layers."""
        sources, offsets, targets, places = torch.from_numpy(moves).long().to(self.device).T
        # Read before any is written: no move writes where a later one reads.
        self._kv[targets, :, :, :, places] = self._kv[sources, :, :, :, offsets]

    def sample(self, logits: Tensor, params: SampleParams) -> Draws:
        """Draw with torch."""
        return sample_torch(logits, params)

    def _rotate(self, x: Tensor) -> Tensor:
        """Half-rotation of x [rows, heads, head_dim] in float32."""
        angles = self._rope[self._positions][:, :, None]
        cosines, sines = angles[:, 0], angles[:, 1]
        low, high = x.float().chunk(2, dim=-1)
        rotated = torch.cat([low * cosines - high * sines, high * cosines + low * sines], -1)
        return rotated.to(x.dtype)

    def _attend_rows(
        self, q: Tensor, keys: Tensor, values: Tensor, table: Tensor, positions: Tensor
    ) -> Tensor:
        """One query a sequence: q [seqs, heads, dim] over table [seqs, width]."""
        k, v = self._gather(keys, table), self._gather(values, table)
        mask = torch.arange(k.shape[2], device=q.device) <= positions[:, None]
        out = scaled_dot_product_attention(
            q[:, :, None], k, v, attn_mask=mask[:, None, None], enable_gqa=True
        )
        return out[:, :, 0]

    def _attend_ragged(self, q: Tensor, keys: Tensor, values: Tensor, batch: StepBatch) -> Tensor:
        """Each sequence by itself: q [rows, heads, dim]."""
        starts = batch.query_start.tolist()
        outs = []
        for s, (start, end) in enumerate(itertools.pairwise(starts)):
            seen, also_seen = batch.seen[start:end, None], batch.also_seen[start:end, None]
            k = self._gather(keys, self._table[s : s + 1])
            v = self._gather(values, self._table[s : s + 1])
            mask = _visible(seen, also_seen, k.shape[2]).to(q.device)
            queries = q[start:end].transpose(0, 1)[None]
            out = scaled_dot_product_attention(
                queries, k, v, attn_mask=mask[None, None], enable_gqa=True
            )
            outs.append(out[0].transpose(0, 1))
        return torch.cat(outs)

    def _gather(self, side: Tensor, table: Tensor) -> Tensor:
        """Blocks by table [seqs, width]: [seqs, kv_heads, width * 32, dim]."""
        seqs, width = table.shape
        gathered = side[table].transpose(1, 2)
        return gathered.reshape(seqs, side.shape[1], width * BLOCK_TOKENS, side.shape[3])


def _visible(seen: Tensor, also_seen: Tensor, length: int) -> Tensor:
    """[rows, length]: whether a row sees each slot. `seen` and `also_seen` are [rows, 1]."""
    slots = torch.arange(length)
    behind = (slots - seen).clamp(0, 31)
    is_named = (also_seen.long() >> behind & 1 == 1) & (slots >= seen) & (slots < seen + 32)
    return (slots < seen) | is_named
