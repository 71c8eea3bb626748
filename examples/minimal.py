"""Groups of responses to a few prompts, each group as soon as it is finished.

Run: `python examples/minimal.py` (prepares the default model the first time).
"""

import asyncio

from seer import Rollout, RolloutConfig, SamplingParams
from seer.engines.local.default_model import default_model_dir
from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec

QUESTIONS = ["Name three rivers.", "What is 17 + 25?", "Write a haiku about rain."]


async def main() -> None:
    """Stream groups from two instances."""
    model = str(default_model_dir(notify=print))
    config = RolloutConfig(engine=ProcessSpec(inner=LocalSpec(model=model)))
    prompts = [[{"role": "user", "content": question}] for question in QUESTIONS]
    sampling = SamplingParams(temperature=0.8, max_tokens=64)
    async with Rollout(config) as rollout:
        async for group in rollout.stream(prompts, group_size=4, sampling=sampling):
            for completion in group.completions:
                print(f"{QUESTIONS[int(group.prompt_id)]}  ->  {completion.text!r}")
        print(rollout.metrics())


if __name__ == "__main__":
    asyncio.run(main())
