"""Timing the local engine's steps: the forward pass and sampling of batches made up for it.

What a step loop does besides (bookkeeping of chunks, reports) is not in these times. Token ids and
the KV read are arbitrary: neither changes how long a step takes.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Self

import numpy as np
import torch

from seer.engines.local.batch import build_batch
from seer.engines.local.decoder import Decoder, Forward
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import read_model_config
from seer.engines.local.ops import Ops, make_ops
from seer.engines.local.rotary import rope_table
from seer.engines.local.sampling import sample_params
from seer.engines.local.spec import BLOCK_TOKENS
from seer.engines.local.weights import load_weights
from seer.engines.serving.draft import chain
from seer.engines.serving.step_model import Rows
from seer.kvpool.keys import chain_keys
from seer.kvpool.pool import PoolClient, PoolConfig, PoolOwner
from seer.kvpool.slots import slot_bytes
from seer.types import SamplingParams, Tier

_COPIED_BLOCKS = 16


class StepTimer:
    """A model on this machine whose steps are timed. Overwrites its KV memory."""

    def __init__(self, forward: Forward, ops: Ops, cache: KVCache, device: torch.device) -> None:
        self._forward = forward
        self._ops = ops
        self._cache = cache
        self._device = device

    @classmethod
    def load(cls, model: str, dtype: str, num_threads: int, kv_tokens: int) -> Self:
        """Load a model on the CPU with KV memory for `kv_tokens`, rounded up to blocks.

        Raises InvalidInput on a bad model directory.
        """
        torch.set_num_threads(num_threads)
        device = torch.device("cpu")
        kind = getattr(torch, dtype)
        config = read_model_config(model)
        cache = KVCache(config, blocks_for(kv_tokens), BLOCK_TOKENS, kind, device)
        ops = make_ops(config, cache, rope_table(model, config, device), device)
        decoder = Decoder(load_weights(model, config, kind, device), ops)
        return cls(decoder, ops, cache, device)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of KV that a token takes."""
        return self._cache.read_block(0).nbytes / BLOCK_TOKENS

    def step_s(self, num_requests: int, context: int, width: int) -> float:
        """Seconds of a decode step: `width` tokens a request fed and sampled.

        Each request has `context` tokens of KV before them. Where the memory has fewer than
        `num_requests * blocks_for(context + width)` blocks, requests share some.
        """
        rows = num_requests * width
        params = sample_params(
            [SamplingParams(temperature=0.8)] * rows, np.full(rows, 0.5), raw=False
        )
        fed = Rows(
            token_ids=[0],
            first_position=context,
            blocks=(),
            samples=True,
            draft=chain([0] * (width - 1)),
        )
        sequences = [self._at(fed, i) for i in range(num_requests)]

        def step() -> None:
            self._ops.sample(self._forward(build_batch(sequences, self._device)), params)

        return _seconds(step)

    def prefill_s(self, num_tokens: int, context: int) -> float:
        """Seconds of a step that writes `num_tokens` of KV after `context`, no more."""
        fed = Rows(token_ids=[0] * num_tokens, first_position=context, blocks=(), samples=False)
        sequences = [self._at(fed, 0)]
        return _seconds(lambda: self._forward(build_batch(sequences, self._device)))

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

    def _at(self, rows: Rows, place: int) -> Rows:
        """The rows with the blocks of the request at this place of the batch."""
        count = blocks_for(rows.first_position + rows.num_rows)
        blocks = range(place * count, (place + 1) * count)
        return replace(rows, blocks=[block % self._cache.num_blocks for block in blocks])


def blocks_for(num_tokens: int) -> int:
    """Blocks that hold the KV of so many tokens of one request."""
    return -(-num_tokens // BLOCK_TOKENS)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
