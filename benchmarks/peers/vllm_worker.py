"""Plain vLLM in a process of its own: `LLM.generate` on batches, one JSON object a line.

The first line is the configuration: {"cpus": [...], "environment": {...}, "arguments": {...}};
answered by {"ready": true}. Then requests {"prompts": [[token, ...], ...], "sampling": {...}},
each answered by {"start": t, "ends": [t, ...], "num_tokens": [n, ...], "num_preemptions": n} in
seconds of the machine's monotonic clock.
"""

import json
import os
import sys
import time
from typing import Any

WARM_UP_SIZES = (3, 2, 1)
"""Batches after which vLLM compiles nothing more."""


def main() -> None:
    """Load, then serve until standard input closes."""
    # The pipe is for answers: what libraries print, in vLLM's processes too, goes elsewhere.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    configuration = json.loads(sys.stdin.readline())
    os.sched_setaffinity(0, configuration["cpus"])
    os.environ.update(configuration["environment"])

    from vllm import LLM  # noqa: PLC0415 - after the environment is set

    llm = LLM(**configuration["arguments"])
    for size in WARM_UP_SIZES:
        generate(llm, {"prompts": [[2, 3, 4, 5]] * size, "sampling": {"logprobs": 0}})
    llm.reset_prefix_cache()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(generate(llm, json.loads(line))), file=answers, flush=True)


def generate(llm: Any, request: dict[str, Any]) -> dict[str, Any]:
    """One batch."""
    from vllm import SamplingParams  # noqa: PLC0415 - as above

    sampling = SamplingParams(**request["sampling"])
    inputs = [{"prompt_token_ids": prompt} for prompt in request["prompts"]]
    start = time.monotonic()
    outputs = llm.generate(inputs, sampling, use_tqdm=False)
    return {
        "start": start,
        "ends": [output.metrics.last_token_ts for output in outputs],
        "num_tokens": [len(output.outputs[0].token_ids) for output in outputs],
        "num_preemptions": sum(output.metrics.num_preemptions for output in outputs),
    }


if __name__ == "__main__":
    main()
