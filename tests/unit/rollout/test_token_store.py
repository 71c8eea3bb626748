"""Tokens of requests: kept when reported, replaced by results, never counted twice."""

from seer.rollout.events import StartChunk
from seer.rollout.prompts import EncodedPrompt
from seer.rollout.token_store import TokenStore
from seer.types import (
    ChunkEnd,
    ChunkProgress,
    ChunkResult,
    ChunkStats,
    FinishReason,
    InstanceLoad,
    RequestId,
    SamplingParams,
)

ME = RequestId(0, 0)
PROMPT = EncodedPrompt(prompt_id="p", token_ids=[1, 2], metadata={}, sampling_index=4)


def _store() -> TokenStore:
    store = TokenStore()
    store.add_group(0, 1, PROMPT, SamplingParams())
    return store


def _start(index: int) -> StartChunk:
    return StartChunk(instance_id=0, request_id=ME, chunk_index=index, max_tokens=8, keep_kv=True)


def _progress(index: int, tokens: list[int]) -> ChunkProgress:
    return ChunkProgress(
        request_id=ME, chunk_index=index, token_ids=tokens, logprobs=[-1.0] * len(tokens)
    )


def _result(index: int, tokens: list[int]) -> ChunkResult:
    return ChunkResult(
        request_id=ME,
        chunk_index=index,
        token_ids=tokens,
        logprobs=[-2.0] * len(tokens),
        end=ChunkEnd.LENGTH,
        stats=ChunkStats(),
        load=InstanceLoad(free_kv_tokens=0, num_running=0, num_waiting=0),
    )


def test_a_result_replaces_what_its_chunk_reported() -> None:
    """Tokens of ended chunks go on into the next chunk, with the sampling index of the prompt."""
    store = _store()
    store.begin(_start(0), 7, 0.5)
    store.stream(_progress(0, [10, 11]))
    assert store.num_tokens == 2
    assert store.end(_result(0, [10, 11, 12]))
    chunk = store.begin(_start(1), 7, 0.9)
    assert (chunk.output_token_ids, chunk.sampling_group, chunk.weight_version) == (
        [10, 11, 12],
        4,
        7,
    )
    assert store.num_tokens == 3


def test_a_lost_chunk_keeps_what_it_reported_but_the_last_token() -> None:
    """The last reported token may have ended the request: it is drawn again."""
    store = _store()
    store.begin(_start(0), 0, 0.0)
    store.end(_result(0, [10]))
    store.begin(_start(1), 0, 0.0)
    store.stream(_progress(1, [11, 12, 13]))
    lost = store.lose(ME)
    assert (lost.chunk_index, lost.num_tokens, store.num_tokens) == (1, 2, 3)
    assert store.begin(_start(2), 0, 0.0).output_token_ids == [10, 11, 12]


def test_a_chunk_lost_before_it_reported_keeps_earlier_chunks() -> None:
    """Nothing of an ended chunk is given up."""
    store = _store()
    store.begin(_start(0), 0, 0.0)
    store.end(_result(0, [10]))
    store.begin(_start(1), 0, 0.0)
    assert store.lose(ME).num_tokens == 0
    assert store.begin(_start(2), 0, 0.0).output_token_ids == [10]


def test_reports_of_a_chunk_that_is_gone_are_ignored() -> None:
    """Late progress and results of a lost chunk change nothing."""
    store = _store()
    store.begin(_start(0), 0, 0.0)
    store.lose(ME)
    store.begin(_start(1), 0, 0.0)
    store.stream(_progress(0, [99]))
    assert not store.end(_result(0, [99]))
    assert store.end(_result(1, [10]))
    store.finish(ME, FinishReason.LENGTH, 2.0)
    [request] = store.take_group(0, 1)
    assert (request.token_ids, request.started_s, request.finished_s) == ([10], 0.0, 2.0)
