"""The first steps of a vLLM instance, made before anybody waits for them."""

import asyncio

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

_LENGTHS = (2, 4, 6)
"""Tokens of requests side by side: so steps of three, two and one of them come."""
_PROMPT = [2, 3, 4, 5]
"""Tokens that every vocabulary has."""


async def warm_up(llm: AsyncLLM) -> None:
    """Have vLLM compile what it compiles at first use: its ranking of log-probabilities.

    torch compiles that once for the first batch, again for any number of rows, and for a single
    one: seconds each, on a CPU. The requests' KV goes.
    """
    await asyncio.gather(*(_generate(llm, length) for length in _LENGTHS))
    await llm.reset_prefix_cache()


async def _generate(llm: AsyncLLM, num_tokens: int) -> None:
    params = SamplingParams(
        max_tokens=num_tokens,
        seed=num_tokens,
        ignore_eos=True,
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    prompt = {"prompt_token_ids": _PROMPT, "cache_salt": "warm-up"}
    async for _ in llm.generate(prompt, params, f"warm-up-{num_tokens}"):
        pass
