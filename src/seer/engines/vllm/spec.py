"""The vLLM engine as configuration. Imports no vLLM: that happens where an instance starts."""

from typing import Literal

import msgspec

from seer.engines.vllm.environment import prepare_environment
from seer.engines.vllm.model_shape import ModelShape, read_model_shape
from seer.engines.vllm.versions import check_vllm
from seer.errors import InvalidInput
from seer.rollout.engine import Engine, InstanceSetup, Tokenizer
from seer.types import EngineInfo

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_BLOCK_UNIT = {"cpu": 32, "cuda": 16}
"""Tokens that a KV block must be a multiple of: what the attention kernels read at once."""


class VllmSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One vLLM engine an instance, over a Hugging Face-format model directory.

    Run it in a child (`ProcessSpec`): vLLM takes its settings from the process's environment, too.
    """

    model: str
    """Directory with config.json, *.safetensors and a tokenizer."""
    dtype: str = "bfloat16"
    device: str = "cpu"
    """`cpu` or `cuda`: what the installed vLLM is built for."""
    kv_tokens: int = 8192
    """Tokens of KV that one instance may hold (rounded down to whole blocks)."""
    block_size: int = 32
    """Tokens a KV block. vLLM reuses whole blocks only."""
    max_running_requests: int = 32
    prefill_tokens_per_step: int = 2048
    """Tokens that one step may compute (vLLM's `max_num_batched_tokens`)."""
    logprobs: Literal["raw", "processed"] = "processed"
    """Log-probabilities before or after temperature and filters."""
    tensor_parallel: int = 1
    """GPUs of one instance."""
    eager: bool | None = None
    """No compilation, no CUDA graphs. None: so on CPUs, where compiling takes minutes."""
    uniform_drafts: bool = False
    """Drafts of one length for all requests of a step or none, which full CUDA graphs need."""
    repair_sampler: bool = True
    """Repair vLLM's verification of drafts where it is known to be wrong (CPUs)."""
    kv_connector: Literal["seer", "mooncake_store"] = "seer"
    """What moves KV between instances: Seer's pool, or vLLM's own connector to a Mooncake store
    (CUDA only; not run)."""
    allow_untried: bool = False
    """Go on with a vLLM release that Seer was not tried with."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise InvalidInput("dtype", self.dtype, f"allowed: {', '.join(DTYPE_BYTES)}")
        if self.device not in _BLOCK_UNIT:
            raise InvalidInput("device", self.device, f"allowed: {', '.join(_BLOCK_UNIT)}")
        unit = _BLOCK_UNIT[self.device]
        if self.block_size < unit or self.block_size % unit:
            raise InvalidInput("block_size", self.block_size, f"allowed: a multiple of {unit}")
        if self.kv_tokens < self.block_size:
            raise InvalidInput(
                "kv_tokens", self.kv_tokens, f"allowed: >= {self.block_size} (a block)"
            )
        for field in ("max_running_requests", "prefill_tokens_per_step", "tensor_parallel"):
            if getattr(self, field) < 1:
                raise InvalidInput(field, getattr(self, field), "allowed: an integer >= 1")
        if self.kv_connector not in {"seer", "mooncake_store"}:
            raise InvalidInput("kv_connector", self.kv_connector, "allowed: seer, mooncake_store")
        if self.kv_connector == "mooncake_store" and self.device == "cpu":
            raise InvalidInput("kv_connector", self.kv_connector, "allowed on CPUs: seer")
        if self.tensor_parallel > 1 and self.device == "cpu":
            raise InvalidInput("tensor_parallel", self.tensor_parallel, "allowed on CPUs: 1")

    @property
    def is_eager(self) -> bool:
        """Whether vLLM compiles nothing."""
        return self.device == "cpu" if self.eager is None else self.eager

    def shape(self) -> ModelShape:
        """The model's sizes. Raises InvalidInput on a bad model directory."""
        return read_model_shape(self.model)

    def describe(self) -> EngineInfo:
        """Sizes and limits from config.json. Raises InvalidInput on a bad model directory."""
        shape = self.shape()
        num_blocks = self.kv_tokens // self.block_size
        elements = shape.kv_elements_per_token * self.block_size
        return EngineInfo(
            model=self.model,
            block_size=self.block_size,
            num_blocks=num_blocks,
            block_bytes=elements * DTYPE_BYTES[self.dtype],
            max_running_requests=self.max_running_requests,
            max_context_tokens=shape.max_context_tokens,
            vocab_size=shape.vocab_size,
            verifies_drafts=True,
        )

    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer, through transformers."""
        from seer.engines.local.tokenizer import HFTokenizer  # noqa: PLC0415 - heavy, optional

        return HFTokenizer(self.model)

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Start vLLM in this process and its children.

        Raises EngineFailure without vLLM or when it does not come up, InvalidInput when its version
        was not tried, and when it refuses the model or a setting.
        """
        check_vllm(self.device, allow_untried=self.allow_untried)
        prepare_environment(self, setup)
        from seer.engines.vllm.engine import VllmEngine  # noqa: PLC0415 - heavy, optional

        return await VllmEngine.start(self, setup)
