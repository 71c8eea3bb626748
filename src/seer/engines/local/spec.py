"""The local engine as configuration."""

from functools import partial
from typing import Literal

import msgspec

from seer.engines.local.model_config import ModelConfig, read_model_config
from seer.engines.serving.engine import StepEngine
from seer.errors import InvalidInput
from seer.rollout.engine import Engine, InstanceSetup, Tokenizer
from seer.types import EngineInfo

BLOCK_TOKENS = 32
"""Tokens in a KV block: fixed in the CPU kernels (csrc/cpu_ops/ops.h)."""

DTYPE_BYTES = {"float32": 4, "bfloat16": 2}


class LocalSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A torch engine over a Hugging Face-format model directory, one device an instance."""

    model: str
    """Directory with config.json, *.safetensors and a tokenizer."""
    dtype: str = "bfloat16"
    device: str = "cpu"
    """A torch device: `cpu`, `cuda`, `cuda:1` ..."""
    kv_tokens: int = 8192
    """Tokens of KV that one instance may hold (rounded down to whole blocks)."""
    max_running_requests: int = 32
    prefill_tokens_per_step: int = 256
    """Chunked prefill: prompt tokens computed beside the decoding requests of one step."""
    logprobs: Literal["raw", "processed"] = "processed"
    """Log-probabilities before or after temperature and filters (vLLM's terms)."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise InvalidInput("dtype", self.dtype, f"allowed: {', '.join(DTYPE_BYTES)}")
        if self.device != "cpu" and not self.device.startswith("cuda"):
            raise InvalidInput("device", self.device, "allowed: cpu, cuda, cuda:N")
        if self.kv_tokens < BLOCK_TOKENS:
            raise InvalidInput("kv_tokens", self.kv_tokens, f"allowed: >= {BLOCK_TOKENS} (a block)")
        for field in ("max_running_requests", "prefill_tokens_per_step"):
            if getattr(self, field) < 1:
                raise InvalidInput(field, getattr(self, field), "allowed: an integer >= 1")
        if self.logprobs not in ("raw", "processed"):
            raise InvalidInput("logprobs", self.logprobs, "allowed: raw, processed")

    def describe(self) -> EngineInfo:
        """Sizes and limits from config.json. Raises InvalidInput on a bad model directory."""
        config = read_model_config(self.model)
        return EngineInfo(
            model=self.model,
            block_size=BLOCK_TOKENS,
            num_blocks=self.kv_tokens // BLOCK_TOKENS,
            block_bytes=self._block_bytes(config),
            max_running_requests=self.max_running_requests,
            max_context_tokens=config.max_context_tokens,
            vocab_size=config.vocab_size,
            verifies_drafts=True,
        )

    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer, through transformers."""
        from seer.engines.local.tokenizer import HFTokenizer  # noqa: PLC0415 - heavy, optional

        return HFTokenizer(self.model)

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Load the weights into this process. Host it in a child with `ProcessSpec`."""
        from seer.engines.local.model import LoadedModel  # noqa: PLC0415 - heavy, optional

        return await StepEngine.start(
            self.describe(),
            setup,
            partial(LoadedModel, self, len(setup.cpus)),
            self.prefill_tokens_per_step,
        )

    def _block_bytes(self, config: ModelConfig) -> int:
        elements = config.num_layers * config.kv_elements_per_token * BLOCK_TOKENS
        return elements * DTYPE_BYTES[self.dtype]
