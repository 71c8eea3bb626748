"""A chunk as a vLLM request."""

import msgspec

from seer.engines.vllm.requests import (
    REPORT_TOKENS,
    chunk_seed,
    prompt_arguments,
    request_name,
    sampling_arguments,
)
from seer.types import Chunk, RequestId, SamplingParams

CHUNK = Chunk(
    request_id=RequestId(7, 2),
    chunk_index=1,
    sampling_group=3,
    prompt_token_ids=[5, 6],
    output_token_ids=[7],
    sampling=SamplingParams(temperature=0.7, seed=9, stop_token_ids=(4,)),
    max_tokens=32,
    keep_kv=True,
    weight_version=5,
)


def _with_sampling(**changes: object) -> Chunk:
    sampling = msgspec.structs.replace(CHUNK.sampling, **changes)
    return msgspec.structs.replace(CHUNK, sampling=sampling)


def test_prompt_is_everything_so_far() -> None:
    """Earlier output is prompt, and the weights' version salts the cache."""
    assert prompt_arguments(CHUNK) == {"prompt_token_ids": [5, 6, 7], "cache_salt": "w5"}
    assert request_name(CHUNK.request_id, 1) == "7.2-1"


def test_end_tokens_are_stop_tokens() -> None:
    """The model's end tokens stop a chunk unless ignored; vLLM's own rule for them is off."""
    arguments = sampling_arguments(CHUNK, (1, 2))
    assert (arguments["stop_token_ids"], arguments["ignore_eos"]) == ([1, 2, 4], True)
    ignoring = sampling_arguments(_with_sampling(ignore_eos=True), (1, 2))
    assert ignoring["stop_token_ids"] == [4]


def test_stop_strings_stay_above() -> None:
    """No stop string goes to vLLM, which reports more often where there is one."""
    arguments = sampling_arguments(_with_sampling(stop=("x",)), ())
    assert "stop" not in arguments
    assert arguments["stream_interval"] < REPORT_TOKENS


def test_every_chunk_has_a_seed_of_its_own() -> None:
    """The seed differs by member and position, and repeats for the same place."""
    later = msgspec.structs.replace(CHUNK, output_token_ids=[7, 8], chunk_index=2)
    sibling = msgspec.structs.replace(CHUNK, request_id=RequestId(7, 3))
    again = msgspec.structs.replace(CHUNK, request_id=RequestId(8, 2), chunk_index=4)
    assert len({chunk_seed(each) for each in (CHUNK, later, sibling)}) == 3
    assert chunk_seed(again) == chunk_seed(CHUNK)  # the sampling group names the prompt
    assert 0 <= chunk_seed(CHUNK) < 2**63


def test_greedy_needs_no_seed() -> None:
    """Nothing is drawn at temperature 0."""
    assert sampling_arguments(_with_sampling(temperature=0.0), ())["seed"] is None
