"""The scripted engine as configuration: a deterministic fake with the real scheduler.

It shares step loop, planner, KV objects and pool traffic with the local engine; only the model is
made up (`scripted_model.py`). So tests of a rollout need no torch, no weights and no luck.
"""

from collections.abc import Sequence
from functools import partial

import msgspec

from seer.engines.scripted_model import WORD_BYTES, ScriptedModel, ScriptShape
from seer.engines.serving.engine import StepEngine
from seer.errors import EngineFailure, InvalidInput
from seer.rollout.engine import Engine, InstanceSetup, Tokenizer
from seer.types import EngineInfo

MAX_VOCAB = 50_000
_FIRST_CHARACTER = 32
"""Token 1 is a space, token 2 an exclamation mark, and so on through Unicode."""


class ScriptedSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A made-up model. Of the sampling parameters only seed, limits and stops have a meaning."""

    vocab_size: int = 96
    """Token 0 ends a response; the default's others are the printable ASCII characters."""
    block_size: int = 16
    """Tokens a KV block."""
    num_blocks: int = 256
    kv_bytes_per_token: int = 16
    """A multiple of 8."""
    max_running_requests: int = 32
    prefill_tokens_per_step: int = 256
    max_context_tokens: int = 4096
    min_length: int = 8
    """Shortest response in tokens, its end token included."""
    max_length: int = 64
    """Longest response; lengths are uniform between the two, keyed by seed, group and member."""
    step_time_s: float = 0.0
    """How long each step sleeps."""
    launch_failure: str | None = None
    """Text of an EngineFailure to raise at launch."""

    def __post_init__(self) -> None:
        for field in (
            "block_size",
            "num_blocks",
            "max_running_requests",
            "prefill_tokens_per_step",
            "max_context_tokens",
            "min_length",
        ):
            if getattr(self, field) < 1:
                raise InvalidInput(field, getattr(self, field), "allowed: an integer >= 1")
        if not 2 <= self.vocab_size <= MAX_VOCAB:  # noqa: PLR2004 - an end token and one more
            raise InvalidInput("vocab_size", self.vocab_size, f"allowed: 2 to {MAX_VOCAB}")
        if self.kv_bytes_per_token < WORD_BYTES or self.kv_bytes_per_token % WORD_BYTES:
            allowed = f"allowed: a positive multiple of {WORD_BYTES}"
            raise InvalidInput("kv_bytes_per_token", self.kv_bytes_per_token, allowed)
        if self.max_length < self.min_length:
            raise InvalidInput("max_length", self.max_length, f"allowed: >= {self.min_length}")
        if not self.step_time_s >= 0:
            raise InvalidInput("step_time_s", self.step_time_s, "allowed: a number >= 0")

    def describe(self) -> EngineInfo:
        """Sizes and limits."""
        return EngineInfo(
            model="scripted",
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            block_bytes=self.block_size * self.kv_bytes_per_token,
            max_running_requests=self.max_running_requests,
            max_context_tokens=self.max_context_tokens,
            vocab_size=self.vocab_size,
            verifies_drafts=True,
        )

    def tokenizer(self) -> Tokenizer:
        """One token a character."""
        return ScriptedTokenizer(self.vocab_size)

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Start an instance in this process. Raises EngineFailure if `launch_failure` says so."""
        if self.launch_failure is not None:
            raise EngineFailure(self.launch_failure)
        make_model = partial(ScriptedModel, self.shape, ScriptedTokenizer(self.vocab_size).decode)
        return await StepEngine.start(
            self.describe(), setup, make_model, self.prefill_tokens_per_step
        )

    @property
    def shape(self) -> ScriptShape:
        """What the model itself needs to know."""
        return ScriptShape(
            vocab_size=self.vocab_size,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            kv_words=self.kv_bytes_per_token // WORD_BYTES,
            min_length=self.min_length,
            max_length=self.max_length,
            step_time_s=self.step_time_s,
        )


class ScriptedTokenizer:
    """One token a character; characters beyond the vocabulary wrap around."""

    def __init__(self, vocab_size: int) -> None:
        self._num_characters = vocab_size - 1

    def encode(self, text: str) -> list[int]:
        """Token ids, never the end token."""
        return [1 + (ord(c) - _FIRST_CHARACTER) % self._num_characters for c in text]

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Token ids of the turns as `role: content`, then the assistant's."""
        turns = "".join(f"{m['role']}: {m['content']} " for m in messages)
        return self.encode(turns + "assistant:")

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text; the end token is left out."""
        return "".join(chr(token - 1 + _FIRST_CHARACTER) for token in token_ids if token)
