"""Plain vLLM processes that share the groups round robin, to stand beside `seer bench` (measured).

What one does without Seer: group i goes, whole, to process i modulo the number of processes, each
on processors of its own, with the KV of an instance. The flags are those of `seer bench`; those
that only Seer has (policies, chunks, drafts, pool) are read and have no effect. Draws are vLLM's
own, so responses differ from those of `seer bench`: compare tokens/s, and times over repeats.

    python benchmarks/peers/vllm_processes.py --prompts P --instances 2 ... --json rows.jsonl
"""

import os
from typing import Any

import msgspec
import typer
from plain_vllm import Batch, PlainVllm, plain_sampling

from seer.cli.flags import settings_command
from seer.cli.job import Job, prepare
from seer.cli.json_rows import JsonRows
from seer.cli.machine import current_commit, this_machine
from seer.cli.messages import tell
from seer.cli.settings import BenchSettings
from seer.engines.vllm.spec import VllmSpec
from seer.rollout.local_site import deal_cpus
from seer.rollout.metrics import tail_start

BLOCK_TOKENS = 128
"""vLLM's own on CPUs; the KV of an instance is rounded up to whole blocks."""


def run(settings: BenchSettings) -> None:
    """Generate the groups on plain vLLM processes; print one JSON row a repeat."""
    output = JsonRows(settings.json)
    job = prepare(msgspec.structs.replace(settings, engine="vllm", drafting="off"))
    assert isinstance(job.spec, VllmSpec)  # noqa: S101 - asked for
    for repeat in range(settings.repeats):
        tell(f"repeat {repeat + 1}: starting {settings.instances} vLLM processes")
        row = {"peer": "vllm_processes", "repeat": repeat, **_measure(job, _plain(job.spec))}
        row |= {
            "seed": settings.seed,
            "commit": current_commit(),
            "machine": this_machine(),
            "config": msgspec.structs.asdict(settings),
        }
        output.append([row])
        typer.echo(msgspec.json.encode(row))


def _plain(spec: VllmSpec) -> VllmSpec:
    num_blocks = -(-spec.kv_tokens // BLOCK_TOKENS)
    return msgspec.structs.replace(
        spec, block_size=BLOCK_TOKENS, kv_tokens=num_blocks * BLOCK_TOKENS
    )


def _measure(job: Job, spec: VllmSpec) -> dict[str, Any]:
    count = job.settings.instances
    cpus = deal_cpus(sorted(os.sched_getaffinity(0)), count)
    workers = [PlainVllm(spec, cpus[i]) for i in range(count)]
    try:
        for worker in workers:
            worker.wait_until_ready()
        sampling = plain_sampling(job, spec)
        for i, worker in enumerate(workers):
            worker.ask(_share(job, i, count), sampling)
        return _figures([worker.batch() for worker in workers], spec)
    finally:
        for worker in workers:
            worker.close()


def _share(job: Job, index: int, count: int) -> list[list[int]]:
    """The prompts of one process, each as often as its group has members."""
    prompts: list[list[int]] = []
    for item in job.prompts[index::count]:
        assert isinstance(item.prompt, list)  # noqa: S101 - prepared in tokens
        prompts += [item.prompt] * job.settings.group_size
    return prompts


def _figures(batches: list[Batch], spec: VllmSpec) -> dict[str, Any]:
    start = min(batch.start_s for batch in batches)
    ends = sorted(end for batch in batches for end in batch.end_s)
    total_s = ends[-1] - start
    tail = tail_start(len(ends), ends)
    num_tokens = sum(sum(batch.num_tokens) for batch in batches)
    return {
        "throughput_tokens_per_s": num_tokens / total_s,
        "total_time_s": total_s,
        "tail_time_s": 0.0 if tail is None else ends[-1] - tail,
        "output_tokens": num_tokens,
        "preemptions": sum(batch.num_preemptions for batch in batches),
        "process_time_s": [max(batch.end_s) - start for batch in batches],
        "kv_tokens": spec.kv_tokens,
    }


if __name__ == "__main__":
    typer.run(settings_command(BenchSettings, run))
