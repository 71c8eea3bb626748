"""What a request does between the end of its chunk and the controller's answer."""

from collections.abc import Iterator

import pytest

from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import ScriptedModel, scripted_output
from seer.engines.serving.ahead import AHEAD_STEPS
from seer.engines.serving.drafting import NoDrafts
from seer.engines.serving.step_loop import StepLoop
from seer.types import (
    Chunk,
    ChunkEnd,
    ChunkResult,
    DropKV,
    KVKey,
    RequestId,
    SamplingParams,
    WeightUpdate,
)

SPEC = ScriptedSpec(block_size=4, num_blocks=8, min_length=20, max_length=20)
PROMPT = list(range(1, 6))
CHUNK = 6
FIRST, SECOND = RequestId(0, 0), RequestId(0, 1)


@pytest.fixture
def loop() -> Iterator[StepLoop]:
    made = StepLoop(
        ScriptedModel(SPEC.shape, SPEC.tokenizer().decode), SPEC.describe(), 64, None, NoDrafts()
    )
    yield made
    made.close()


def _text(request_id: RequestId) -> list[int]:
    return scripted_output(SPEC.shape, 1, request_id.group, request_id.member)


def _chunk(request_id: RequestId, num_output: int = 0, max_tokens: int = CHUNK) -> Chunk:
    return Chunk(
        request_id=request_id,
        chunk_index=num_output,
        sampling_group=request_id.group,
        prompt_token_ids=PROMPT,
        output_token_ids=_text(request_id)[:num_output],
        sampling=SamplingParams(seed=1),
        max_tokens=max_tokens,
        keep_kv=True,
    )


def _run(loop: StepLoop, chunk: Chunk) -> tuple[ChunkResult, int]:
    """The chunk's result, and the steps it took."""
    results = loop.start(chunk).results
    num_steps = 0
    while not results:
        results = loop.step().results
        num_steps += 1
    return results[0], num_steps


def test_the_next_chunk_takes_over_what_came_after_the_last_one(loop: StepLoop) -> None:
    """Tokens of the steps between two chunks are the second's; it makes the rest."""
    _, alone = _run(loop, _chunk(FIRST))
    for _ in range(2):
        assert not loop.step().results
    result, num_steps = _run(loop, _chunk(FIRST, CHUNK))
    assert result.token_ids == _text(FIRST)[CHUNK : 2 * CHUNK]
    assert (result.end, result.stats.num_decode_steps) == (ChunkEnd.LENGTH, CHUNK)
    assert (alone, num_steps) == (CHUNK + 1, CHUNK - 2)  # the first fed the prompt as well


def test_a_response_that_has_ended_meanwhile_ends_its_next_chunk_at_once(loop: StepLoop) -> None:
    """No step is needed to say so, and no KV is left."""
    length = len(_text(FIRST))
    _run(loop, _chunk(FIRST, max_tokens=length - 2))
    while loop.has_work:
        loop.step()
    result, num_steps = _run(loop, _chunk(FIRST, length - 2))
    assert (result.token_ids, result.end, num_steps) == (_text(FIRST)[-2:], ChunkEnd.STOP, 0)
    assert result.load.free_kv_tokens == (SPEC.num_blocks - 1) * SPEC.block_size  # the prompt's


def test_it_waits_for_an_answer_for_so_long_only(loop: StepLoop) -> None:
    """Nobody may want it here: an engine with nothing else to do comes to rest."""
    _run(loop, _chunk(FIRST))
    num_steps = 0
    while loop.has_work:
        loop.step()
        num_steps += 1
    assert num_steps == AHEAD_STEPS


def test_it_gives_way_to_chunks(loop: StepLoop) -> None:
    """Another request gets its blocks; the first one's own KV stays, and its text."""
    _run(loop, _chunk(FIRST))
    for _ in range(AHEAD_STEPS):
        loop.step()
    other, _ = _run(loop, _chunk(SECOND, max_tokens=12))
    assert other.stats.num_preemptions == 0
    result, _ = _run(loop, _chunk(FIRST, CHUNK))
    assert result.token_ids == _text(FIRST)[CHUNK : 2 * CHUNK]
    assert result.stats.num_output_prefilled == 0


@pytest.mark.parametrize("others", ["dropped", "aborted", "short", "elsewhere"])
def test_what_is_not_wanted_is_thrown_away(loop: StepLoop, others: str) -> None:
    """KV dropped, request cancelled, a chunk of fewer tokens, or one that follows others."""
    _run(loop, _chunk(FIRST))
    for _ in range(3):
        loop.step()
    num_output, size = CHUNK, CHUNK
    match others:
        case "dropped":
            loop.move(DropKV(key=KVKey(0, 0)))
        case "aborted":
            assert not loop.abort(FIRST).results
        case "short":
            size = 2
        case _:
            num_output = CHUNK + 1
    result, num_steps = _run(loop, _chunk(FIRST, num_output, size))
    assert result.token_ids == _text(FIRST)[num_output : num_output + size]
    assert num_steps == size


def test_new_weights_can_come_at_once(loop: StepLoop) -> None:
    """Whoever is between two chunks is not in flight, and nothing of it outlives its weights."""
    _run(loop, _chunk(FIRST))
    loop.step()
    loop.update(WeightUpdate(version=1, path=""))
    assert not loop.has_work
