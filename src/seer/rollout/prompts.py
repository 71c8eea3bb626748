"""Prompts as users give them."""

from collections.abc import Sequence

import msgspec

from seer.errors import InvalidInput
from seer.rollout.engine import Tokenizer
from seer.types import EngineInfo, Metadata

Message = dict[str, str]
PromptContent = str | Sequence[Message] | Sequence[int]
"""Plain text, chat messages, or token ids."""


class PromptItem(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with what belongs to it."""

    prompt: PromptContent
    prompt_id: str | None = None
    """None: its place in the call."""
    metadata: Metadata = msgspec.field(default_factory=dict)
    """Carried through to the result."""
    sampling_index: int | None = None
    """The group number that keys the draws; None: its place in the call."""
    known_lengths: tuple[int, ...] = ()
    """Output tokens of each member in an earlier run with the same draws (for `oracle`)."""
    prior_tokens: float | None = None
    """Mean output tokens of its responses in an earlier iteration, for the `seer` policy."""


Prompt = PromptContent | PromptItem


class EncodedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A checked prompt."""

    prompt_id: str
    token_ids: list[int]
    metadata: Metadata
    sampling_index: int
    known_lengths: tuple[int, ...] = ()
    prior_tokens: float | None = None


def encode_prompts(
    prompts: Sequence[Prompt], tokenizer: Tokenizer, info: EngineInfo
) -> list[EncodedPrompt]:
    """Tokenise and check. Raises InvalidInput naming the prompt's id."""
    if isinstance(prompts, str) or not prompts:
        raise InvalidInput("prompts", prompts, "allowed: a list of at least one prompt")
    return [_encode(prompt, i, tokenizer, info) for i, prompt in enumerate(prompts)]


def _encode(prompt: Prompt, place: int, tokenizer: Tokenizer, info: EngineInfo) -> EncodedPrompt:
    item = prompt if isinstance(prompt, PromptItem) else PromptItem(prompt=prompt)
    prompt_id = str(place) if item.prompt_id is None else item.prompt_id
    token_ids = _token_ids(item.prompt, prompt_id, tokenizer)
    if not token_ids:
        raise InvalidInput("prompts", f"prompt {prompt_id}", "allowed: at least one token")
    foreign = [token for token in token_ids if not 0 <= token < info.vocab_size]
    if foreign:
        allowed = f"allowed: token ids in [0, {info.vocab_size})"
        raise InvalidInput("prompts", f"prompt {prompt_id}: token {foreign[0]}", allowed)
    return EncodedPrompt(
        prompt_id=prompt_id,
        token_ids=token_ids,
        metadata=item.metadata,
        sampling_index=place if item.sampling_index is None else item.sampling_index,
        known_lengths=item.known_lengths,
        prior_tokens=item.prior_tokens,
    )


def _token_ids(content: PromptContent, prompt_id: str, tokenizer: Tokenizer) -> list[int]:
    if isinstance(content, str):
        return tokenizer.encode(content) if content else []
    messages = [part for part in content if isinstance(part, dict)]
    if messages and len(messages) == len(content):
        return tokenizer.encode_chat(messages)
    token_ids = [part for part in content if isinstance(part, int)]
    if len(token_ids) != len(content):
        allowed = "allowed: text, a list of chat messages, or a list of token ids"
        raise InvalidInput("prompts", f"prompt {prompt_id}", allowed)
    return token_ids
