"""KV across vLLM instances: one takes over what another computed, generated tokens included."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("vllm")

from seer.drafting.config import DraftingConfig
from seer.engines.process import ProcessSpec
from seer.engines.vllm.spec import VllmSpec
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.rollout.engine import Engine, InstanceSetup
from seer.types import Chunk, ChunkResult, PoolAddress, RequestId, SamplingParams, WeightUpdate
from support.subjects import ignore

PROMPT = [2 + 7 * i % 150 for i in range(70)]
GREEDY = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=200)
FIRST = 3 * 32 + 1 + 32 - len(PROMPT)
"""Tokens of the first chunk: the total is one more than whole blocks."""


def _chunk(output: list[int], max_tokens: int, index: int = 0, version: int = 0) -> Chunk:
    return Chunk(
        request_id=RequestId(0, 0),
        chunk_index=index,
        sampling_group=0,
        prompt_token_ids=PROMPT,
        output_token_ids=output,
        sampling=GREEDY,
        max_tokens=max_tokens,
        keep_kv=True,
        weight_version=version,
    )


@asynccontextmanager
async def _instances(
    directory: Path, count: int, pool: PoolConfig, drafting: str = "off"
) -> AsyncIterator[tuple[list[Engine], PoolAddress]]:
    spec = VllmSpec(model=str(directory), dtype="float32", kv_tokens=2048)
    owner = PoolOwner.create(pool, spec.describe().block_bytes)
    async with AsyncExitStack() as stack:
        stack.callback(owner.close)
        engines = []
        for i in range(count):
            setup = InstanceSetup(
                instance_id=i, pool=owner.address, drafting=DraftingConfig(budget=drafting)
            )
            engine = await ProcessSpec(inner=spec).launch(setup)
            stack.push_async_callback(engine.close)
            engines.append(engine)
        yield engines, owner.address


async def _moved(directory: Path, pool: PoolConfig) -> tuple[ChunkResult, ChunkResult]:
    """The uninterrupted response, and the second half made by another process."""
    async with _instances(directory, 2, pool) as ([source, target], _):
        first = await source.run(_chunk([], FIRST), ignore)
        moved = await target.run(_chunk(first.token_ids, 40, 1), ignore)
        whole = await source.run(_chunk([], FIRST + 40, 2), ignore)
        assert whole.token_ids[:FIRST] == first.token_ids
        await target.update_weights(WeightUpdate(version=1, path=str(directory)))
        stale = await target.run(_chunk(first.token_ids, 4, 3, version=1), ignore)
        assert stale.stats.num_prompt_prefilled == len(PROMPT)
        return whole, moved


@pytest.mark.parametrize(
    "pool",
    [
        PoolConfig(host_bytes=64 * 2**20),
        PoolConfig(host_bytes=2**20, disk_bytes=64 * 2**20),
    ],
    ids=["memory", "memory-and-disk"],
)
def test_a_request_goes_on_in_another_process(tiny_model: Path, pool: PoolConfig) -> None:
    """All but the last token comes from the pool, and the tokens are those of one process.

    KV of other weights is not taken.
    """
    whole, moved = asyncio.run(_moved(tiny_model, pool))
    assert moved.token_ids == whole.token_ids[FIRST:]
    assert moved.stats.num_prompt_prefilled == 0
    assert moved.stats.num_output_prefilled == 0
