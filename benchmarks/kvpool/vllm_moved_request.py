"""A request that goes on in another vLLM process: what it computes anew, and its first token.

    python benchmarks/kvpool/vllm_moved_request.py --model DIR

Two instances, one core each, share a pool in shared memory. The first generates up to 1,500 tokens;
the second goes on there, and, for comparison, starts a request of as many tokens that nobody has
seen. Bars: at most one block computed anew; first token within 0.3 of the cold prefill's.
"""

import argparse
import asyncio
import statistics
import time
from contextlib import AsyncExitStack

from seer.drafting.config import DraftingConfig
from seer.engines.process import ProcessSpec
from seer.engines.vllm.spec import VllmSpec
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.rollout.engine import Engine, InstanceSetup
from seer.types import Chunk, ChunkProgress, ChunkResult, RequestId, SamplingParams

NUM_TOKENS = 1505
"""One more than 47 blocks of 32: nothing but the last token needs computing after a move."""
GENERATED = 65
SAMPLING = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=4096)


def _prompt(member: int, length: int) -> list[int]:
    return [100 + (7919 * i + 104729 * member) % 40000 for i in range(length)]


def _chunk(member: int, prompt: list[int], output: list[int], max_tokens: int) -> Chunk:
    return Chunk(
        request_id=RequestId(member, 0),
        chunk_index=0,
        sampling_group=member,
        prompt_token_ids=prompt,
        output_token_ids=output,
        sampling=SAMPLING,
        max_tokens=max_tokens,
        keep_kv=True,
    )


def _ignore(_: ChunkProgress) -> None:
    pass


async def _first_token(engine: Engine, chunk: Chunk) -> tuple[float, ChunkResult]:
    started = time.perf_counter()
    result = await engine.run(chunk, _ignore)
    return time.perf_counter() - started, result


async def main() -> None:
    """Print one line a repeat, then the ratio of medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--remote", help="mooncake://host:port: move through the store alone")
    options = parser.parse_args()
    spec = VllmSpec(model=options.model, dtype=options.dtype, kv_tokens=16384)
    host_bytes = 0 if options.remote else 1 << 30
    pool = PoolOwner.create(
        PoolConfig(host_bytes=host_bytes, remote=options.remote), spec.describe().block_bytes
    )
    async with AsyncExitStack() as stack:
        stack.callback(pool.close)
        engines = []
        for i in range(2):
            setup = InstanceSetup(
                instance_id=i, pool=pool.address, drafting=DraftingConfig(budget="off"), cpus=(i,)
            )
            engines.append(await ProcessSpec(inner=spec).launch(setup))
            stack.push_async_callback(engines[-1].close)
        await _measure(*engines, options.repeats)


async def _measure(source: Engine, target: Engine, repeats: int) -> None:
    moved_s, cold_s = [], []
    for i in range(repeats + 1):  # the first warms up
        prompt = _prompt(2 * i, NUM_TOKENS - GENERATED)
        first = await source.run(_chunk(2 * i, prompt, [], GENERATED), _ignore)
        moved, result = await _first_token(target, _chunk(2 * i, prompt, first.token_ids, 1))
        cold, _ = await _first_token(
            target, _chunk(2 * i + 1, _prompt(2 * i + 1, NUM_TOKENS), [], 1)
        )
        anew = result.stats.num_prompt_prefilled + result.stats.num_output_prefilled
        print(f"moved: {moved:.3f} s, {anew} tokens computed anew; cold: {cold:.3f} s", flush=True)
        moved_s += [moved] if i else []
        cold_s += [cold] if i else []
    moved, cold = statistics.median(moved_s), statistics.median(cold_s)
    print(f"medians of {repeats}: {moved:.3f} s / {cold:.3f} s = {moved / cold:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
