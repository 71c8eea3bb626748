"""Timing the local engine's steps: the forward pass and sampling of batches made up for it.

What a step loop does besides (bookkeeping of chunks, reports) is not in these times. Token ids and
the KV read are arbitrary: neither changes how long a step takes.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from seer.engines.local.batch import build_batch
from seer.engines.local.decoder import Decoder
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import read_model_config
from seer.engines.local.ops import make_ops
from seer.engines.local.rotary import rope_table
from seer.engines.local.sampling import sample_params
from seer.engines.local.spec import BLOCK_TOKENS
from seer.engines.local.weights import load_weights
from seer.engines.serving.step_model import Rows
from seer.kvpool.keys import chain_keys
from seer.kvpool.pool import PoolClient, PoolConfig, PoolOwner
from seer.kvpool.slots import slot_bytes
from seer.types import SamplingParams, Tier

_COPIED_BLOCKS = 16


class StepTimer:
    """A model on this machine's CPU whose steps are timed, with KV memory of its own."""

    def __init__(self, model: str, dtype: str, num_threads: int, kv_tokens: int) -> None:
        """`kv_tokens` is rounded up to blocks. Raises InvalidInput on a bad model directory."""
        torch.set_num_threads(num_threads)
        self._device = torch.device("cpu")
        kind = getattr(torch, dtype)
        config = read_model_config(model)
        self.kv_bytes_per_token = config.num_layers * config.kv_elements_per_token * kind.itemsize
        self._cache = KVCache(
            config, -(-kv_tokens // BLOCK_TOKENS), BLOCK_TOKENS, kind, self._device
        )
        rope = rope_table(model, config, self._device)
        self._ops = make_ops(config, self._cache, rope, self._device)
        self._decoder = Decoder(load_weights(model, config, kind, self._device), self._ops)

    def step_s(self, num_requests: int, context: int, width: int) -> float:
        """Seconds of a decode step: `width` tokens a request fed and sampled.

        Each request has `context` tokens of KV before them. The KV memory must have
        `num_requests * blocks_for(context + width)` blocks.
        """
        rows = num_requests * width
        params = sample_params(
            [SamplingParams(temperature=0.8)] * rows, np.full(rows, 0.5), raw=False
        )
        sequences = _sequences(num_requests, context, width, width)

        def step() -> None:
            self._ops.sample(self._decoder(build_batch(sequences, self._device)), params)

        return _seconds(step)

    def prefill_s(self, num_tokens: int, context: int) -> float:
        """Seconds of a step that writes `num_tokens` of KV after `context`, no more."""
        sequences = _sequences(1, context, num_tokens, 0)
        return _seconds(lambda: self._decoder(build_batch(sequences, self._device)))

    def kv_copy_bytes_per_s(self) -> tuple[float, float]:
        """Speed of copying blocks to the host tier of a pool and back, with all checks."""
        block_bytes = self._cache.read_block(0).nbytes
        slots = range(min(_COPIED_BLOCKS, self._cache.num_blocks))
        keys = chain_keys(list(range(BLOCK_TOKENS * len(slots))), BLOCK_TOKENS, b"timing")
        owner = PoolOwner.create(
            PoolConfig(host_bytes=slot_bytes(block_bytes) * len(slots)), block_bytes
        )
        client = PoolClient.open(owner.address)
        payload = memoryview(bytearray(block_bytes))

        def export() -> None:
            for slot, key in zip(slots, keys, strict=True):
                client.write_block(slot, key, BLOCK_TOKENS, self._cache.read_block(slot))

        def load() -> None:
            for slot, key in zip(slots, keys, strict=True):
                client.read_block(Tier.HOST, slot, key, payload)
                self._cache.write_block(slot, payload)

        try:
            export()  # touches the pool's memory for the first time
            num_bytes = block_bytes * len(slots)
            return num_bytes / _seconds(export), num_bytes / _seconds(load)
        finally:
            client.close()
            owner.close()


def blocks_for(num_tokens: int) -> int:
    """Blocks that hold the KV of so many tokens of one request."""
    return -(-num_tokens // BLOCK_TOKENS)


def _sequences(num_requests: int, context: int, width: int, num_logits: int) -> Sequence[Rows]:
    blocks = blocks_for(context + width)
    return [
        Rows(
            token_ids=[0] * width,
            first_position=context,
            blocks=range(i * blocks, (i + 1) * blocks),
            num_logits=num_logits,
        )
        for i in range(num_requests)
    ]


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
