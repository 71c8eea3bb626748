"""Seer's local engine as a benchmark worker: worker_seer.py MODEL DTYPE."""

import asyncio
import os
import sys

from protocol import serve

from seer.engines.local.spec import LocalSpec
from seer.rollout.engine import Engine, InstanceSetup
from seer.types import Chunk, RequestId, SamplingParams

KV_TOKENS = 49_152


async def _generate(engine: Engine, call: int, prompts: list[list[int]], num_tokens: int) -> None:
    sampling = SamplingParams(temperature=0.8, max_tokens=num_tokens, ignore_eos=True)
    chunks = [
        Chunk(
            request_id=RequestId(call * 1000 + i, 0),
            chunk_index=0,
            sampling_group=i,
            prompt_token_ids=prompt,
            output_token_ids=[],
            sampling=sampling,
            max_tokens=num_tokens,
            keep_kv=False,
        )
        for i, prompt in enumerate(prompts)
    ]
    await asyncio.gather(*(engine.run(chunk, lambda _: None) for chunk in chunks))


def main() -> None:
    """Load, then serve."""
    model, dtype = sys.argv[1:3]
    spec = LocalSpec(model=model, dtype=dtype, kv_tokens=KV_TOKENS, prefill_tokens_per_step=2048)
    loop = asyncio.new_event_loop()
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    engine = loop.run_until_complete(spec.launch(InstanceSetup(instance_id=0, cpus=cpus)))
    calls = iter(range(10**9))
    serve(lambda prompts, n: loop.run_until_complete(_generate(engine, next(calls), prompts, n)))
    loop.run_until_complete(engine.close())


if __name__ == "__main__":
    main()
