"""vLLM's sampling parameters, as OpenRLHF and SkyRL hand them over, and those of one chunk."""

from collections.abc import Mapping
from typing import Any

from seer.errors import InvalidInput
from seer.types import SamplingParams

NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "min_tokens",
    "stop",
    "stop_token_ids",
    "ignore_eos",
    "n",
    "seed",
    "presence_penalty",
    "frequency_penalty",
)
"""What is read of them."""

_REFUSED = {
    "n": ((None, 1), "1: a group is made of single requests"),
    "seed": ((None,), "none: a seed would repeat its draws in every chunk"),
    "presence_penalty": ((None, 0), "0: it counts the tokens of one chunk only"),
    "frequency_penalty": ((None, 0), "0: it counts the tokens of one chunk only"),
}
"""What would mean something else in chunks: values that change nothing, and why."""


def seer_sampling(params: Mapping[str, Any]) -> SamplingParams:
    """Seer's view of them. Raises InvalidInput for what cannot be divided into chunks."""
    for name, (neutral, allowed) in _REFUSED.items():
        if params.get(name) not in neutral:
            raise InvalidInput(name, params[name], f"allowed: {allowed}")
    if not params.get("max_tokens"):
        raise InvalidInput("max_tokens", params.get("max_tokens"), "allowed: an integer >= 1")
    stop = params.get("stop") or ()
    return SamplingParams(
        temperature=params.get("temperature", 1.0),
        top_p=params.get("top_p", 1.0),
        top_k=max(0, params.get("top_k") or 0),  # vLLM: -1 is off, too
        min_p=params.get("min_p") or 0.0,
        max_tokens=params["max_tokens"],
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stop_token_ids=tuple(params.get("stop_token_ids") or ()),
        ignore_eos=bool(params.get("ignore_eos")),
    )


def chunk_limits(params: Mapping[str, Any], max_tokens: int, num_generated: int) -> dict[str, int]:
    """The parameters that differ in each chunk: `max_tokens`, and what is left of `min_tokens`.

    vLLM bars the end token for the first `min_tokens` of a call; left as it is (trainers set 1) it
    would bar it at the start of every chunk, and bend the distribution.
    """
    left = (params.get("min_tokens") or 0) - num_generated
    return {"max_tokens": max_tokens, "min_tokens": min(max(0, left), max_tokens)}
