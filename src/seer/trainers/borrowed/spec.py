"""The trainer's engines as the engine of a rollout, and the settings of that rollout."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.engine import Engine, InstanceSetup, Tokenizer
from seer.scheduling.placement import PlacementConfig
from seer.setting_fields import check_minimum
from seer.trainers.borrowed.engine import BorrowedEngine, Generate, OneVersion
from seer.types import EngineInfo

_BLOCK_SIZE = 16
_MINIMUM = {"chunk_size": 1, "kv_tokens": _BLOCK_SIZE, "max_running": 1, "max_spread": 0}


class BorrowedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Seer schedules on the trainer's engines. Raises InvalidInput on a bad value."""

    policy: str = "divided"
    """As in docs/rollout.md; with `group_round_robin` the engines get whole requests at once."""
    chunk_size: int = 2048
    """Tokens a call. # Paper silent: each call passes through the engine's queue and prefix cache
    again, which costs more than with an engine of Seer's own."""
    kv_tokens: int | None = None
    """KV tokens that one engine holds; None: what the engine says, and if it does not, no limit:
    then the engine may preempt."""
    max_running: int = 256
    """Requests that one engine runs at once."""
    max_spread: int = 32
    """As in PlacementConfig."""

    def __post_init__(self) -> None:
        check_minimum(self, _MINIMUM)


class HFTokens:
    """A Hugging Face tokenizer as the rollout wants it."""

    def __init__(self, tokenizer: Any, *, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, nothing added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Token ids of a chat and the generation prompt."""
        return list(
            self._tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=True, return_dict=False
            )
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of generated tokens."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=self._skip)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowedSpec:
    """Engines that run already, by instance id."""

    info: EngineInfo
    tokens: Tokenizer
    engines: tuple[Generate, ...]
    version: OneVersion = field(default_factory=OneVersion)

    def describe(self) -> EngineInfo:
        """Sizes and limits of each."""
        return self.info

    def tokenizer(self) -> Tokenizer:
        """The trainer's."""
        return self.tokens

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Borrow an engine; one that was lost is tried again."""
        generate = self.engines[setup.instance_id]
        return BorrowedEngine(
            self.info, setup.instance_id, generate, self.tokens.decode, self.version
        )


def borrowed_config(
    settings: BorrowedSettings,
    *,
    model: str,
    engines: Sequence[Generate],
    tokens: Tokenizer,
    vocab_size: int,
    max_context_tokens: int,
    stated_kv_tokens: int | None = None,
) -> RolloutConfig:
    """A rollout on the trainer's engines; `stated_kv_tokens` is what they say they hold.

    Raises InvalidInput without engines, or for a policy that there is not.
    """
    if not engines:
        raise InvalidInput("engines", 0, "allowed: at least one engine of the trainer")
    unlimited = settings.max_running * max_context_tokens
    kv_tokens = settings.kv_tokens or stated_kv_tokens or unlimited
    info = EngineInfo(
        model=model,
        block_size=_BLOCK_SIZE,
        num_blocks=max(1, kv_tokens // _BLOCK_SIZE),
        block_bytes=1,  # never moved
        max_running_requests=settings.max_running,
        max_context_tokens=max_context_tokens,
        vocab_size=vocab_size,
    )
    return RolloutConfig(
        engine=BorrowedSpec(info=info, tokens=tokens, engines=tuple(engines)),
        num_instances=len(engines),
        policy=settings.policy,
        chunk_size=settings.chunk_size,
        placement=PlacementConfig(max_spread=settings.max_spread),
        pool=PoolConfig(host_bytes=0),
    )
