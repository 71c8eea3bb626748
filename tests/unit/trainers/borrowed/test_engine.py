"""An engine of the trainer's as Seer's: calls, aborts, refusals, what is counted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from seer.engines.scripted import ScriptedTokenizer
from seer.errors import EngineFailure, InstanceLost
from seer.trainers.borrowed.engine import Answer, Ask, BorrowedEngine, OneVersion
from seer.types import (
    Chunk,
    ChunkEnd,
    ChunkProgress,
    DropKV,
    EngineInfo,
    ExportKV,
    KVKey,
    RequestId,
    SamplingParams,
    WeightUpdate,
)

INFO = EngineInfo(
    model="theirs",
    block_size=16,
    num_blocks=8,
    block_bytes=1,
    max_running_requests=4,
    max_context_tokens=128,
    vocab_size=96,
)
TOKENS = ScriptedTokenizer(96)
CHUNK = Chunk(
    request_id=RequestId(1, 2),
    chunk_index=0,
    sampling_group=0,
    prompt_token_ids=TOKENS.encode("What is it? "),
    output_token_ids=TOKENS.encode("It is "),
    sampling=SamplingParams(max_tokens=40),
    max_tokens=8,
    keep_kv=True,
)


def engine(generate: Callable[[Ask], Awaitable[Answer]]) -> BorrowedEngine:
    return BorrowedEngine(INFO, 3, generate, TOKENS.decode, OneVersion())


def answer(text: str, finish: Any = "length", **more: Any) -> Answer:
    tokens = TOKENS.encode(text)
    return Answer(token_ids=tokens, logprobs=[-0.5] * len(tokens), finish=finish, **more)


def run(given: Answer | Exception, chunk: Chunk = CHUNK) -> Any:
    """One chunk on an engine that answers so."""

    async def generate(_: Ask) -> Answer:
        if isinstance(given, Exception):
            raise given
        return given

    return asyncio.run(engine(generate).run(chunk, ignore))


def ignore(_: ChunkProgress) -> None:
    raise AssertionError("no progress is known")


def test_one_chunk_is_one_call() -> None:
    """The call gets everything so far; its tokens are the chunk's; the load counts it out again."""
    asked: list[Ask] = []

    async def generate(ask: Ask) -> Answer:
        asked.append(ask)
        return answer("a river.", cached_tokens=10)

    result = asyncio.run(engine(generate).run(CHUNK, ignore))
    (ask,) = asked
    assert TOKENS.decode(ask.token_ids) == "What is it? It is "
    assert (ask.num_generated, ask.max_tokens) == (6, 8)
    assert TOKENS.decode(result.token_ids) == "a river."
    assert (result.end, result.load.num_running) == (ChunkEnd.LENGTH, 0)
    assert result.load.free_kv_tokens == INFO.kv_capacity_tokens
    assert result.stats.num_prompt_prefilled == 2
    assert result.stats.num_output_prefilled == 5  # the last one is fed in any case


def test_a_stop() -> None:
    """It ends the request, however few tokens there are."""
    assert run(answer("no", "stop")).end is ChunkEnd.STOP


def test_stop_string_from_an_earlier_chunk() -> None:
    """What began before the chunk is seen by Seer alone, and ends the response where it ends."""
    sampling = SamplingParams(max_tokens=40, stop=("is over",))
    chunk = msgspec.structs.replace(CHUNK, sampling=sampling)
    result = run(answer("over now"), chunk)
    assert (TOKENS.decode(result.token_ids), result.end) == ("over", ChunkEnd.STOP)
    assert len(result.logprobs) == 4
    assert run(answer("not over"), chunk).end is ChunkEnd.LENGTH


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (answer(""), "0 tokens, where 1 to 8"),
        (answer("far too long"), "12 tokens, where 1 to 8"),
        (answer("short"), "ended after 5 of 8 tokens.*shorter than 26"),
        (Answer(token_ids=[1, 2], logprobs=[-1.0], finish="stop"), "2 tokens, 1 log-prob"),
        (KeyError("meta_info"), "instance 3: KeyError: 'meta_info'"),
    ],
)
def test_bad_answers(given: Answer | Exception, message: str) -> None:
    """An answer that makes no sense, or none, is the engine's failure."""
    with pytest.raises(EngineFailure, match=message):
        run(given)


def test_a_lost_engine() -> None:
    """What the call says of it passes through."""
    with pytest.raises(InstanceLost):
        run(InstanceLost(3, "gone"))


def test_abort_close_and_refusals() -> None:
    """Abort ends a call without tokens; close loses it; both are safe to repeat."""

    async def check() -> None:
        theirs = engine(lambda _: asyncio.sleep(60))  # type: ignore[arg-type, return-value]
        first = asyncio.create_task(theirs.run(CHUNK, ignore))
        await asyncio.sleep(0)
        with pytest.raises(EngineFailure, match="in flight"):
            await theirs.run(CHUNK, ignore)
        with pytest.raises(EngineFailure, match="in flight"):
            await theirs.update_weights(WeightUpdate(version=1, path=""))
        await theirs.abort(RequestId(9, 9))
        await theirs.abort(CHUNK.request_id)
        result = await first
        assert (result.end, result.token_ids) == (ChunkEnd.ABORTED, [])
        second = asyncio.create_task(theirs.run(CHUNK, ignore))
        await asyncio.sleep(0)
        await theirs.close()
        await theirs.close()
        with pytest.raises(InstanceLost):
            await second
        with pytest.raises(InstanceLost):
            await theirs.run(CHUNK, ignore)

    asyncio.run(check())


def test_weight_versions() -> None:
    """One version until the trainer says that there is another, for chunks as for answers."""

    async def check() -> None:
        given = answer("a river.", weight_version="a")

        async def generate(_: Ask) -> Answer:
            return given

        theirs = engine(generate)
        await theirs.run(CHUNK, ignore)
        given = answer("a river.", weight_version="b")
        with pytest.raises(EngineFailure, match="from version a to b"):
            await theirs.run(CHUNK, ignore)
        await theirs.update_weights(WeightUpdate(version=1, path=""))
        with pytest.raises(EngineFailure, match="for weights 0, but these are 1"):
            await theirs.run(CHUNK, ignore)
        await theirs.run(msgspec.structs.replace(CHUNK, weight_version=1), ignore)

    asyncio.run(check())


def test_kv_cannot_be_moved() -> None:
    """Nothing is exported; drops are left to the engine."""

    async def check() -> None:
        theirs = engine(lambda _: asyncio.sleep(0))  # type: ignore[arg-type, return-value]
        key = KVKey(1, 2)
        assert not (await theirs.move_kv(ExportKV(key=key, slots=(0,)))).ok
        assert (await theirs.move_kv(DropKV(key=key))).ok

    asyncio.run(check())
