"""Actors that answer verl's `generate` with scripted tokens, in place of vLLM's servers.

A text is the token 0, which ends every prompt, and what follows. The first token of a response is a
code that no other response of the server has; the code decides how long the response is and what it
says. So a response is the same whether it is generated in one call or in several.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Any

import ray

END = 1
FIRST_CODE = 20
NUM_CODES = 120
STEP_S = 0.002
DEFAULT_MAX_TOKENS = 32


@dataclass
class TokenOutput:
    """verl's of that name, as far as it is read; an actor that imports verl starts slowly."""

    token_ids: list[int]
    log_probs: list[float] | None
    stop_reason: str
    routed_experts: Any = None
    num_preempted: int | None = None
    extra_fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One call of `generate`."""

    began: float
    num_output: int
    """Tokens of the response that the caller sent along."""
    code: int
    """The response's first token."""
    first_token: int
    """Of the prompt."""
    num_prompt: int
    max_tokens: int
    in_flight: int
    """Calls in progress with it."""


def length_of(code: int) -> int:
    """Tokens of the response with this code, the end token among them."""
    return 3 + 5 * (code % 6)


def response_of(code: int) -> list[int]:
    """The whole response."""
    middle = [
        FIRST_CODE + (7 * code + place) % NUM_CODES for place in range(1, length_of(code) - 1)
    ]
    return [code, *middle, END]


class FakeServer:
    """`vLLMHttpServer` as far as verl's clients know it."""

    def __init__(self, rank: int, num_servers: int) -> None:
        self.calls: list[Call] = []
        self._rank = rank
        self._num_servers = num_servers
        self._num_codes = 0
        self._in_flight = 0
        self._global_steps = 0
        self._num_aborts = 0
        self._dies_at: int | None = None
        self._steps_at: int | None = None

    async def generate(
        self,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        request_id: str,
        image_data: Any = None,
        video_data: Any = None,
        priority: int = 0,
    ) -> TokenOutput:
        del request_id, image_data, video_data, priority
        max_tokens = sampling_params.get("max_tokens", DEFAULT_MAX_TOKENS)
        place = len(prompt_ids) - 1 - prompt_ids[::-1].index(0)
        prompt, output = prompt_ids[: place + 1], list(prompt_ids[place + 1 :])
        code = output[0] if output else self._new_code()
        whole = response_of(code)
        assert output == whole[: len(output)], "the caller sends what was generated"
        self._in_flight += 1
        self.calls.append(
            Call(
                began=time.monotonic(),
                num_output=len(output),
                code=code,
                first_token=prompt[0],
                num_prompt=len(prompt),
                max_tokens=max_tokens,
                in_flight=self._in_flight,
            )
        )
        if self._dies_at is not None and len(self.calls) >= self._dies_at:
            os._exit(1)
        if self._steps_at is not None and len(self.calls) >= self._steps_at:
            self._global_steps += 1
            self._steps_at = None
        tokens = whole[len(output) :][:max_tokens]
        await asyncio.sleep(STEP_S * len(tokens))
        self._in_flight -= 1
        return self._answer(tokens, len(output))

    def _answer(self, tokens: list[int], num_before: int) -> TokenOutput:
        stop_reason = "completed"
        if self._num_aborts > 0 and len(tokens) > 1:
            self._num_aborts -= 1
            tokens, stop_reason = tokens[: len(tokens) // 2], "aborted"
        return TokenOutput(
            token_ids=tokens,
            log_probs=[-0.01 * (num_before + i) for i in range(len(tokens))],
            stop_reason=stop_reason,
            extra_fields={"global_steps": self._global_steps},
        )

    def _new_code(self) -> int:
        self._num_codes += 1
        return FIRST_CODE + (self._num_codes * self._num_servers + self._rank) % NUM_CODES

    async def get_calls(self) -> list[Call]:
        return self.calls

    async def abort(self, count: int) -> None:
        """Cut the next calls short."""
        self._num_aborts = count

    async def die_at(self, call: int) -> None:
        """End the process in that call."""
        self._dies_at = call

    async def step_at(self, call: int) -> None:
        """Take new weights in that call."""
        self._steps_at = call

    async def pid(self) -> int:
        return os.getpid()


def start_servers(count: int) -> dict[str, Any]:
    """By address; their codes differ."""
    actor = ray.remote(FakeServer).options(max_concurrency=1000, num_cpus=0)
    return {f"server-{i}": actor.remote(i, count) for i in range(count)}
