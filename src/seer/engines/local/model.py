"""A loaded model on one device: weights, KV memory and one step of work."""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import torch

from seer.costmodel.step_time import StepTime
from seer.engines.local.batch import build_batch
from seer.engines.local.cuda_graphs import GraphedDecoder
from seer.engines.local.decoder import Decoder
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import ModelConfig, read_model_config
from seer.engines.local.ops import make_ops
from seer.engines.local.rotary import rope_table
from seer.engines.local.sampling import sample_params
from seer.engines.local.spec import BLOCK_TOKENS, LocalSpec
from seer.engines.local.step_surface import measure_surface
from seer.engines.local.step_timer import StepTimer
from seer.engines.local.weights import load_weights
from seer.engines.serving.draw_places import draw_places
from seer.engines.serving.step_model import Draws, TokenMove
from seer.engines.serving.step_plan import Planned
from seer.rollout.engine import Tokenizer


class LoadedModel:
    """Runs planned steps. Not thread-safe: one step loop owns it."""

    def __init__(self, spec: LocalSpec, num_threads: int = 0) -> None:
        """`num_threads` of the calling thread's torch work; 0 leaves torch's own choice."""
        if num_threads:
            torch.set_num_threads(num_threads)
        self._spec = spec
        self._tokenizer: Tokenizer | None = None
        self.config: ModelConfig = read_model_config(spec.model)
        self._device = torch.device(spec.device)
        self._dtype = torch.bfloat16 if spec.dtype == "bfloat16" else torch.float32
        self.memory = KVCache(
            self.config, spec.kv_tokens // BLOCK_TOKENS, BLOCK_TOKENS, self._dtype, self._device
        )
        rope = rope_table(spec.model, self.config, self._device)
        self._ops = make_ops(self.config, self.memory, rope, self._device)
        self.load(spec.model)

    @property
    def eos_token_ids(self) -> Sequence[int]:
        """End tokens of the model's generation settings."""
        return self.config.eos_token_ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens; the tokenizer is loaded when a stop string first asks for it."""
        if self._tokenizer is None:
            self._tokenizer = self._spec.tokenizer()
        return self._tokenizer.decode(token_ids)

    def load(self, path: str) -> None:
        """Take weights from a directory of safetensors; the old ones go when these have loaded.

        Raises InvalidInput when they do not fit the configuration.
        """
        weights = load_weights(path, self.config, self._dtype, self._device)
        decoder = Decoder(weights, self._ops)
        is_cuda = self._device.type == "cuda"
        self._forward = GraphedDecoder(decoder, self._ops) if is_cuda else decoder

    def salt(self, weight_version: int) -> bytes:
        """What names this model's KV: equal salts mean that bytes may be exchanged."""
        parts = (self.config.fingerprint, self._spec.dtype, self._ops.layout, weight_version)
        return ":".join(map(str, parts)).encode()

    def move_tokens(self, moves: Sequence[TokenMove]) -> None:
        """Copy the KV of single tokens."""
        self._ops.move_tokens(np.array([astuple(move) for move in moves], dtype=np.int32))

    def step_time(self) -> StepTime:
        """Measured on this device, over KV memory that holds nothing yet."""
        timer = StepTimer(self._forward, self._ops, self.memory, self._device)
        return measure_surface(
            timer, self._spec.max_running_requests, self.config.max_context_tokens
        )

    @torch.inference_mode()
    def step(self, planned: Sequence[Planned]) -> Draws:
        """Feed all rows; draw one token after each row that asks for logits, in order."""
        logits = self._forward(build_batch([p.rows for p in planned], self._device))
        places = draw_places(planned)
        if not places.chunks:
            return Draws(token_ids=[], logprobs=[])
        sampling = [chunk.sampling for chunk in places.chunks]
        raw = self._spec.logprobs == "raw"
        params = sample_params(sampling, places.uniforms(), raw=raw)
        return self._ops.sample(logits, params)
