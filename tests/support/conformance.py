"""What every engine must do (seer/rollout/engine.py): running, ending, aborting, closing.

Each check is a coroutine function of a Subject. `CHECKS` has all of them, those of
`kv_conformance.py` included; a test runs each with `run_check`. `CHECKS_OF_CACHES` are those that
an engine can pass whose KV is a cache of blocks, not objects that it is told to keep, move and drop
(`Subject.kv_objects`).
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from seer.errors import EngineFailure, InstanceLost
from seer.rollout.engine import Engine
from seer.types import Chunk, ChunkEnd, ChunkResult, RequestId, WeightUpdate
from support.kv_conformance import KV_CHECKS, KV_CHECKS_OF_CACHES
from support.subjects import SAMPLING, Collected, Subject, ignore, reference, running

Check = Callable[[Subject], Awaitable[None]]
_LIMIT_S = 60.0


def run_check(check: Check, subject: Subject, runner: asyncio.Runner | None = None) -> None:
    """Run one check, on the runner's event loop if its engine lives there, else on its own."""

    async def limited() -> None:
        async with asyncio.timeout(_LIMIT_S):
            await check(subject)

    if runner is None:
        asyncio.run(limited())
    else:
        runner.run(limited())


async def check_chunked_equals_whole(subject: Subject) -> None:
    """Chunks give the tokens of the whole response, and compute nothing twice."""
    async with running(subject) as [engine]:
        whole = await reference(engine, subject, 0, subject.num_tokens)
        size = subject.info.block_size // 2 + 3
        tokens: list[int] = []
        logprobs: list[float] = []
        for index in range(-(-subject.num_tokens // size)):
            count = min(size, subject.num_tokens - len(tokens))
            chunk = subject.chunk(0, output=tokens, index=index, max_tokens=count)
            result = await engine.run(chunk, ignore)
            assert (result.request_id, result.chunk_index) == (chunk.request_id, index)
            assert result.end is ChunkEnd.LENGTH
            if index > 0:
                assert subject.is_resumed(result)
            elif subject.kv_objects:
                assert result.stats.num_prompt_prefilled == len(subject.prompt) - 1
            tokens += result.token_ids
            logprobs += result.logprobs
        assert tokens == whole.token_ids
        pairs = zip(logprobs, whole.logprobs, strict=True)
        assert all(math.isclose(a, b, abs_tol=1e-3) for a, b in pairs)


async def check_batch_does_not_matter(subject: Subject) -> None:
    """Requests that run side by side get the tokens that they get alone."""
    async with running(subject) as [engine]:
        count = subject.info.block_size
        chunks = [
            subject.chunk(m, max_tokens=count, keep_kv=False, sampling=SAMPLING) for m in range(3)
        ]
        alone = [(await engine.run(chunk, ignore)).token_ids for chunk in chunks]
        together = await asyncio.gather(*(engine.run(chunk, ignore) for chunk in chunks))
        assert [result.token_ids for result in together] == alone
        assert alone[0] != alone[1]


async def check_prompt_is_computed_once(subject: Subject) -> None:
    """Members of a group share the prompt's KV."""
    async with running(subject) as [engine]:
        chunks = [subject.chunk(m, max_tokens=4) for m in range(3)]
        results = await asyncio.gather(*(engine.run(chunk, ignore) for chunk in chunks))
        prefilled = sum(result.stats.num_prompt_prefilled for result in results)
        num_covered = len(subject.prompt) - 1
        if subject.kv_objects:
            assert prefilled == num_covered
        else:  # whole blocks are shared, and may be there from before
            assert prefilled <= num_covered + 2 * (num_covered % subject.info.block_size)


async def check_progress(subject: Subject) -> None:
    """Progress comes in order, before the result, and agrees with it."""
    async with running(subject) as [engine]:
        seen = Collected()
        result = await engine.run(subject.chunk(0, max_tokens=subject.num_tokens), seen)
        assert seen.token_ids
        assert result.token_ids[: len(seen.token_ids)] == seen.token_ids
        assert result.logprobs[: len(seen.logprobs)] == seen.logprobs
        assert len(result.token_ids) == len(result.logprobs) == subject.num_tokens


async def check_stop_token(subject: Subject) -> None:
    """A stop token ends the request, is kept, and frees the KV."""
    async with running(subject) as [engine]:
        whole = await reference(engine, subject, 0, subject.num_tokens)
        stop = whole.token_ids[subject.num_tokens // 2]
        end = whole.token_ids.index(stop) + 1
        sampling = msgspec.structs.replace(subject.sampling, stop_token_ids=(stop,))
        chunk = subject.chunk(0, max_tokens=subject.num_tokens, sampling=sampling)
        result = await engine.run(chunk, ignore)
        assert (result.token_ids, result.end) == (whole.token_ids[:end], ChunkEnd.STOP)
        assert result.load.free_kv_tokens == subject.free_tokens()


async def check_load(subject: Subject) -> None:
    """A result reports the free KV: less the prompt's, and the request's where it is kept."""
    async with running(subject) as [engine]:
        count = subject.num_tokens
        result = await engine.run(subject.chunk(0, max_tokens=count, keep_kv=False), ignore)
        assert result.load.free_kv_tokens == subject.free_tokens()
        result = await engine.run(subject.chunk(0, max_tokens=count), ignore)
        free = subject.free_tokens(count)
        assert result.load.free_kv_tokens in (free, free - subject.info.block_size)
        assert (result.load.num_running, result.load.num_waiting) == (0, 0)


async def check_abort(subject: Subject) -> None:
    """An aborted chunk returns what it has; the next one goes on from there."""
    async with running(subject) as [engine]:
        count = 2 * subject.num_tokens
        whole = await reference(engine, subject, 0, count)
        await engine.abort(RequestId(3, 0))  # nothing in flight: ignored
        task = await _started(engine, subject.chunk(0, max_tokens=count))
        await engine.abort(RequestId(3, 0))
        result = await task
        assert result.end is ChunkEnd.ABORTED
        assert 0 < len(result.token_ids) < count
        assert result.token_ids == whole.token_ids[: len(result.token_ids)]
        chunk = subject.chunk(
            0, output=result.token_ids, index=1, max_tokens=count - len(result.token_ids)
        )
        rest = await engine.run(chunk, ignore)
        assert result.token_ids + rest.token_ids == whole.token_ids
        assert subject.is_resumed(rest)


async def check_one_chunk_a_request(subject: Subject) -> None:
    """A second chunk of a request in flight is refused; the first goes on."""
    async with running(subject) as [engine]:
        task = await _started(engine, subject.chunk(0, max_tokens=2 * subject.num_tokens))
        with pytest.raises(EngineFailure):
            await engine.run(subject.chunk(0, max_tokens=1, index=1), ignore)
        assert (await task).end is ChunkEnd.LENGTH


async def check_preemption(subject: Subject) -> None:
    """When blocks run out the newest request is preempted, recomputed and counted; texts hold."""
    async with running(subject) as [engine]:
        count = subject.info.kv_capacity_tokens // 2
        alone = [(await reference(engine, subject, m, count)).token_ids for m in range(4)]
        chunks = [subject.chunk(m, max_tokens=count, keep_kv=False) for m in range(4)]
        results = await asyncio.gather(*(engine.run(chunk, ignore) for chunk in chunks))
        assert [result.token_ids for result in results] == alone
        assert sum(result.stats.num_preemptions for result in results) > 0
        if subject.kv_objects:
            assert sum(result.stats.num_output_prefilled for result in results) > 0
        assert results[0].stats.num_preemptions == 0


async def check_update_weights(subject: Subject) -> None:
    """New weights are refused while a chunk is in flight, and take all KV with them."""
    async with running(subject) as [engine]:
        update = WeightUpdate(version=1, path=subject.weights_path)
        task = await _started(engine, subject.chunk(0, max_tokens=2 * subject.num_tokens))
        with pytest.raises(EngineFailure):
            await engine.update_weights(update)
        assert (await task).end is ChunkEnd.LENGTH
        await engine.update_weights(update)
        with pytest.raises(EngineFailure):
            await engine.run(subject.chunk(1, max_tokens=1), ignore)
        result = await engine.run(subject.chunk(1, max_tokens=1, weight_version=1), ignore)
        assert result.stats.num_prompt_prefilled == len(subject.prompt) - 1


async def check_close(subject: Subject) -> None:
    """Closing ends chunks in flight with InstanceLost, may be repeated, and refuses more."""
    async with running(subject) as [engine]:
        task = await _started(engine, subject.chunk(0, max_tokens=2 * subject.num_tokens))
        await engine.close()
        with pytest.raises(InstanceLost):
            await task
        await engine.close()
        with pytest.raises(InstanceLost):
            await engine.run(subject.chunk(1, max_tokens=1), ignore)


async def _started(engine: Engine, chunk: Chunk) -> asyncio.Task[ChunkResult]:
    """A chunk in flight that has reported progress."""
    reported = asyncio.Event()
    task = asyncio.create_task(engine.run(chunk, lambda _: reported.set()))
    await asyncio.wait(
        {task, asyncio.create_task(reported.wait())}, return_when=asyncio.FIRST_COMPLETED
    )
    return task


CHECKS: tuple[Check, ...] = (
    check_chunked_equals_whole,
    check_batch_does_not_matter,
    check_prompt_is_computed_once,
    check_progress,
    check_stop_token,
    check_load,
    check_abort,
    check_one_chunk_a_request,
    check_preemption,
    check_update_weights,
    check_close,
    *KV_CHECKS,
)
CHECKS_OF_CACHES: tuple[Check, ...] = (
    *(check for check in CHECKS if check not in KV_CHECKS),
    *KV_CHECKS_OF_CACHES,
)
