"""`seer bench`: the same prompts under several policies, side by side in one go.

Policies take turns within each repeat, so that a slow minute of the machine falls on all of them.
Each rollout has instances of its own: none inherits KV, memory or restarts from the one before.
"""

import itertools
from dataclasses import replace

import msgspec
from rich.console import Console

from seer.cli.bench_report import BenchRow, bench_table, difference_note
from seer.cli.interrupt import run_interruptible
from seer.cli.job import Job, prepare
from seer.cli.json_rows import JsonRows
from seer.cli.machine import current_commit, this_machine
from seer.cli.messages import tell
from seer.cli.session import generate
from seer.cli.settings import BenchSettings
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.scheduling.policies import ORACLE

TABLE_WIDTH = 100
"""Columns of the table where the console is narrower, so that a line stays a line in a file."""

Texts = dict[tuple[str, int], list[int]]
"""Output tokens by (prompt id, member)."""


def run_bench(settings: BenchSettings) -> None:
    """Run the same prompts under several policies and compare speed and responses."""
    output = JsonRows(settings.json)
    job = prepare(settings)
    rows: list[BenchRow] = []
    reference: Texts | None = None
    first_throughput = 0.0
    for repeat in range(settings.repeats):
        for policy, drafting in itertools.product(settings.policy_names, settings.draftings):
            prompts = job.prompts
            if policy == ORACLE and reference is not None:
                prompts = _with_lengths(job, reference)
            drafted_job = _with_drafting(job, drafting)
            metrics, texts = _measure(drafted_job, policy, repeat, prompts)
            reference = reference or texts
            if (policy, drafting) == (settings.policy_names[0], settings.draftings[0]):
                first_throughput = metrics.throughput_tokens_per_s
            row = _row(drafted_job, policy, repeat, metrics, first_throughput)
            num_different = sum(texts[key] != reference[key] for key in reference)
            rows.append(msgspec.structs.replace(row, differing_requests=num_different))
            output.append([rows[-1]])
    console = Console(highlight=False)
    console.print(bench_table(rows), width=max(console.width, TABLE_WIDTH))
    console.print(difference_note(rows, job.num_requests), soft_wrap=True)


def _with_drafting(job: Job, drafting: str) -> Job:
    return replace(job, drafting=msgspec.structs.replace(job.drafting, budget=drafting))


def _with_lengths(job: Job, texts: Texts) -> tuple[PromptItem, ...]:
    """The prompts with the lengths of their responses in the first rollout of the bench."""
    members = range(job.settings.group_size)
    return tuple(
        msgspec.structs.replace(
            prompt,
            known_lengths=tuple(len(texts[str(prompt.prompt_id), member]) for member in members),
        )
        for prompt in job.prompts
    )


def _measure(
    job: Job, policy: str, repeat: int, prompts: tuple[PromptItem, ...]
) -> tuple[RolloutMetrics, Texts]:
    texts: Texts = {}

    def keep(group: GroupResult) -> None:
        for each in group.completions:
            texts[group.prompt_id, each.member] = each.output_token_ids

    tell(f"repeat {repeat + 1}, {policy}, drafting {job.drafting.budget}")
    return run_interruptible(generate(job, policy, prompts, None, keep)), texts


def _row(
    job: Job, policy: str, repeat: int, metrics: RolloutMetrics, first_throughput: float
) -> BenchRow:
    return BenchRow(
        policy=policy,
        drafting=job.drafting.budget,
        repeat=repeat,
        throughput_tokens_per_s=metrics.throughput_tokens_per_s,
        total_time_s=metrics.total_time_s,
        tail_time_s=metrics.tail_time_s,
        output_tokens=metrics.output_tokens,
        preemptions=metrics.preemptions,
        reprefilled_tokens=metrics.reprefilled_tokens,
        kv_bytes_moved=metrics.kv_bytes_moved,
        mean_running=metrics.mean_running,
        acceptance_length=metrics.acceptance_length,
        drafted_tokens=metrics.drafted_tokens,
        accepted_tokens=metrics.accepted_tokens,
        acceptance_by_position=metrics.acceptance_by_position,
        draft_time_share=metrics.draft_time_share,
        ratio_to_first=metrics.throughput_tokens_per_s / first_throughput,
        differing_requests=0,
        seed=job.settings.seed,
        commit=current_commit(),
        machine=this_machine(),
        config=msgspec.structs.asdict(job.settings),
    )
