"""A chunk as a vLLM request. Imports no vLLM.

What vLLM counts per request, Seer's chunks would break: so the end token goes in as a stop token,
stop strings are looked for above (`chunk_flight.py`), and nothing that counts output tokens
(penalties, `min_tokens`) is asked for; Seer's SamplingParams has no such field.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from seer.engines.vllm.drafting.identity import extra_args
from seer.types import Chunk, RequestId

REPORT_TOKENS = 16
"""Tokens after which vLLM reports what it has: what a lost instance may have to generate again."""
REPORT_TOKENS_WITH_STRINGS = 4
"""Likewise where stop strings are looked for: what may be generated past one, for nothing."""
_SEED_BYTES = 7
"""Of a hash: fits every integer type between here and torch's generator."""


def request_name(request_id: RequestId, chunk_index: int) -> str:
    """The id of a chunk in vLLM."""
    return f"{request_id.group}.{request_id.member}-{chunk_index}"


def prompt_arguments(chunk: Chunk) -> dict[str, Any]:
    """The prompt for vLLM: all tokens so far. The salt keeps KV of other weights out of reach."""
    return {
        "prompt_token_ids": [*chunk.prompt_token_ids, *chunk.output_token_ids],
        "cache_salt": f"w{chunk.weight_version}",
    }


def sampling_arguments(chunk: Chunk, eos_token_ids: Sequence[int]) -> dict[str, Any]:
    """Keyword arguments of vLLM's SamplingParams, but for its enums."""
    sampling = chunk.sampling
    ends = set(sampling.stop_token_ids)
    if not sampling.ignore_eos:
        ends.update(eos_token_ids)
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "max_tokens": chunk.max_tokens,
        "seed": chunk_seed(chunk) if sampling.temperature > 0 else None,
        "stop_token_ids": sorted(ends),
        "ignore_eos": True,
        "logprobs": 0,  # of the sampled token alone
        "flat_logprobs": True,
        "detokenize": False,
        "stream_interval": REPORT_TOKENS_WITH_STRINGS if sampling.stop else REPORT_TOKENS,
        "extra_args": extra_args(chunk),
    }


def chunk_seed(chunk: Chunk) -> int:
    """The seed of a chunk's own generator, keyed by where its first token lies.

    vLLM's generator starts anew with each request, so a seed kept over the chunks of a response
    would draw with the same numbers again and again. Seer's key of a draw (seed, group, member,
    position) names the chunk's place instead.
    """
    key = (
        chunk.sampling.seed,
        chunk.sampling_group,
        chunk.request_id.member,
        len(chunk.output_token_ids),
    )
    digest = hashlib.blake2b(repr(key).encode(), digest_size=_SEED_BYTES).digest()
    return int.from_bytes(digest, "big")
