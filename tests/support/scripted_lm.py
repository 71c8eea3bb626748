"""A language model by arithmetic, for engines that know nothing of Seer: text in, text out.

The next token is a hash of everything before it, so a response that was divided into calls, by
whichever engine, can be checked token by token. The first token after a prompt is another at each
call, as sampled ones are: members of a group differ.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from seer.engines.scripted import ScriptedTokenizer

VOCAB = 96
END = 0
_ENDS = 24
"""One token in so many is the end."""


def next_token(context: Sequence[int]) -> int:
    """The token after a context."""
    number = _hash(context)
    return END if number % _ENDS == 0 else 1 + number % (VOCAB - 1)


def logprob(context: Sequence[int]) -> float:
    """Its log-probability."""
    return -0.1 - (_hash(context) % 7) / 7


def check_response(prompt: list[int], tokens: list[int], logprobs: list[float], limit: int) -> bool:
    """Whether the model wrote this; True: it ended by itself, not by the limit."""
    for place in range(1, len(tokens)):
        context = prompt + tokens[:place]
        assert tokens[place] == next_token(context)
        assert abs(logprobs[place] - logprob(context)) < 1e-9
    assert END not in tokens[:-1]
    is_over = tokens[-1] == END
    assert is_over or len(tokens) == limit
    return is_over


@dataclass(frozen=True)
class Call:
    """One call as an engine saw it."""

    engine: int
    num_context: int
    max_tokens: int
    kv_tokens: int
    """Of all calls in flight on the engine then, up to their limits; a prompt counts once."""
    min_tokens: int = 0


@dataclass
class ScriptedLM:
    """Engines that serve one model, and what they were asked."""

    prompts: set[tuple[int, ...]] = field(default_factory=set)
    """Contexts after which the first token is drawn anew at each call."""
    calls: list[Call] = field(default_factory=list)
    in_flight: dict[int, dict[int, tuple[tuple[int, ...], int]]] = field(default_factory=dict)
    """Prompt, and tokens beyond it, by engine and call."""
    _draws: Any = field(default_factory=itertools.count)

    def begin(self, engine: int, context: Sequence[int], max_tokens: int, **more: int) -> int:
        """Note a call; its number."""
        number = len(self.calls)
        running = self.in_flight.setdefault(engine, {})
        size = max((len(prompt) for prompt in self.prompts), default=0)
        running[number] = (tuple(context[:size]), len(context) - size + max_tokens)
        shared = sum(len(prompt) for prompt in {prompt for prompt, _ in running.values()})
        kv_tokens = shared + sum(own for _, own in running.values())
        self.calls.append(Call(engine, len(context), max_tokens, kv_tokens, **more))
        return number

    def end(self, engine: int, number: int) -> None:
        """The call is over."""
        del self.in_flight[engine][number]

    def generate(
        self, context: Sequence[int], max_tokens: int
    ) -> tuple[list[int], list[float], str]:
        """New tokens, their log-probabilities, and why they end."""
        tokens: list[int] = []
        values: list[float] = []
        while len(tokens) < max_tokens:
            whole = [*context, *tokens]
            is_first = tuple(whole) in self.prompts
            token = 1 + next(self._draws) % (VOCAB - 1) if is_first else next_token(whole)
            tokens.append(token)
            values.append(logprob(whole))
            if token == END:
                return tokens, values, "stop"
        return tokens, values, "length"


class CharTokenizer:
    """A Hugging Face tokenizer, as far as trainers call it: one token a character."""

    name_or_path = "scripted"
    eos_token = ""
    eos_token_id = END

    def __init__(self) -> None:
        self._characters = ScriptedTokenizer(VOCAB)

    def __len__(self) -> int:
        return VOCAB

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        """Token ids of one text, as an array of shape [1, tokens]."""
        return {"input_ids": np.array([self._characters.encode(text)])}

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids."""
        del add_special_tokens
        return self._characters.encode(text)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Text; the end token is `$` unless it is skipped."""
        text = self._characters.decode([token for token in token_ids if token != END])
        is_shown = not skip_special_tokens and END in token_ids
        return text + "$" if is_shown else text

    def apply_chat_template(self, messages: Sequence[dict[str, str]], **_: Any) -> list[int]:
        """Token ids of the contents."""
        return self._characters.encode("".join(message["content"] for message in messages))


def _hash(context: Sequence[int]) -> int:
    digest = blake2b(bytes(context), digest_size=8).digest()
    return int.from_bytes(digest, "big")
