"""Which request of which group a vLLM request is: what its `extra_args` say, or its prompt.

vLLM appends a random suffix to request ids and shows a proposer neither them nor groups, but it
carries `SamplingParams.extra_args` (`vllm_xargs` over HTTP: numbers and lists of them) to the
worker. Requests without ours are those of somebody else's driver: what has one prompt is a group
then, and each request a member of its own.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from seer.types import Chunk, RequestId, SamplingParams

REQUEST = "seer_request"
"""[group, member]"""
PROMPT_TOKENS = "seer_prompt_tokens"
"""Tokens of the group's prompt; vLLM's prompt has the output of earlier chunks behind them."""
WEIGHT_VERSION = "seer_weight_version"
IS_PROBE = "seer_is_probe"
DRAFT_WEIGHT = "seer_draft_weight"

_ID_BITS = 61


def extra_args(chunk: Chunk) -> dict[str, Any]:
    """What a chunk's vLLM request carries for the drafter."""
    return {
        REQUEST: [chunk.request_id.group, chunk.request_id.member],
        PROMPT_TOKENS: len(chunk.prompt_token_ids),
        WEIGHT_VERSION: chunk.weight_version,
        IS_PROBE: int(chunk.is_probe),
        DRAFT_WEIGHT: chunk.draft_weight,
    }


def chunk_of(
    name: str, extra: Mapping[str, Any] | None, prompt: Sequence[int], output: Sequence[int]
) -> Chunk:
    """The chunk that a vLLM request is, as far as a drafter asks.

    Args:
        name: vLLM's id of the request.
        extra: Its extra_args. What is missing or malformed there counts as not said: a drafter may
            lack something, but must not end the engine over it.
        prompt: vLLM's prompt.
        output: What vLLM has generated for the request.
    """
    extra = extra or {}
    request_id = _request_id(extra.get(REQUEST))
    if request_id is None:
        request_id = RequestId(_number(_bytes(prompt)), _number(name.encode()))
        num_prompt = len(prompt)
    else:
        num_prompt = min(_whole(extra.get(PROMPT_TOKENS), len(prompt)), len(prompt))
    weight = extra.get(DRAFT_WEIGHT, 1.0)
    is_weight = isinstance(weight, int | float) and math.isfinite(weight) and weight > 0
    return Chunk(
        request_id=request_id,
        chunk_index=0,
        sampling_group=0,
        prompt_token_ids=list(prompt[:num_prompt]),
        output_token_ids=[*prompt[num_prompt:], *output],
        sampling=SamplingParams(),
        max_tokens=0,
        keep_kv=False,
        weight_version=_whole(extra.get(WEIGHT_VERSION), 0),
        is_probe=bool(extra.get(IS_PROBE, 0)),
        draft_weight=float(weight) if is_weight else 1.0,
    )


def _request_id(value: object) -> RequestId | None:
    match value:
        case [int(group), int(member)] if group >= 0 and 0 <= member < 2**62:
            return RequestId(group, member)
    return None


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and value >= 0 else default


def _bytes(token_ids: Sequence[int]) -> bytes:
    return b",".join(str(token).encode() for token in token_ids)


def _number(data: bytes) -> int:
    """A number that says which these bytes are."""
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - _ID_BITS)
