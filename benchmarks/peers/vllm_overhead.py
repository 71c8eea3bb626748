"""What Seer costs where it can win nothing: one vLLM instance, nothing divided (measured).

The same prompts through `seer` (policy group_round_robin: each request is one vLLM request) and
through plain `LLM.generate`, in turn, each freshly started and not counted while it loads. With
--ignore-eos both generate the same number of tokens. The flags are those of `seer bench`.

    python benchmarks/peers/vllm_overhead.py --prompts P --ignore-eos --max-tokens 128 --repeats 3
"""

import asyncio
import os
from statistics import median
from typing import Any

import msgspec
import typer
from plain_vllm import PlainVllm, plain_sampling

from seer.cli.flags import settings_command
from seer.cli.job import Job, prepare
from seer.cli.json_rows import JsonRows
from seer.cli.machine import current_commit, this_machine
from seer.cli.messages import tell
from seer.cli.session import generate
from seer.cli.settings import BenchSettings
from seer.engines.vllm.spec import VllmSpec

POLICY = "group_round_robin"


def run(settings: BenchSettings) -> None:
    """Measure both in turn; print one JSON row a repeat, and the median of the ratios."""
    output = JsonRows(settings.json)
    settings = msgspec.structs.replace(
        settings, engine="vllm", instances=1, drafting="off", policies=POLICY, pool_bytes=0
    )
    job = prepare(settings)
    ratios = []
    for repeat in range(settings.repeats):
        row = {"peer": "vllm_overhead", "repeat": repeat, **_measure(job)}
        ratios.append(row["ratio"])
        row |= {
            "commit": current_commit(),
            "machine": this_machine(),
            "config": msgspec.structs.asdict(settings),
        }
        output.append([row])
        typer.echo(msgspec.json.encode(row))
    typer.echo(f"Seer's tokens/s over plain vLLM's, median of {len(ratios)}: {median(ratios):.3f}")


def _measure(job: Job) -> dict[str, Any]:
    tell("Seer")
    metrics = asyncio.run(generate(job, POLICY, job.prompts, None, lambda _: None))
    tell("plain vLLM")
    plain_tokens, plain_s = _plain(job)
    plain = plain_tokens / plain_s
    return {
        "seer_tokens_per_s": metrics.throughput_tokens_per_s,
        "plain_tokens_per_s": plain,
        "ratio": metrics.throughput_tokens_per_s / plain,
        "seer_time_s": metrics.total_time_s,
        "plain_time_s": plain_s,
        "output_tokens": [metrics.output_tokens, plain_tokens],
    }


def _plain(job: Job) -> tuple[int, float]:
    """Tokens and seconds of plain vLLM on all prompts, each as often as its group has members."""
    assert isinstance(job.spec, VllmSpec)  # noqa: S101 - asked for
    worker = PlainVllm(job.spec, sorted(os.sched_getaffinity(0)))
    try:
        worker.wait_until_ready()
        prompts = [item.prompt for item in job.prompts for _ in range(job.settings.group_size)]
        worker.ask(prompts, plain_sampling(job, job.spec))  # type: ignore[arg-type]
        batch = worker.batch()
    finally:
        worker.close()
    return sum(batch.num_tokens), max(batch.end_s) - batch.start_s


if __name__ == "__main__":
    typer.run(settings_command(BenchSettings, run))
