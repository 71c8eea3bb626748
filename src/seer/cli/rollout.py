"""`seer rollout`: responses to prompts, written to a directory, resumable at any moment."""

from collections.abc import Sequence
from pathlib import Path

import typer

from seer.cli.completions import Completion, write_completions
from seer.cli.interrupt import run_interruptible
from seer.cli.job import Job, prepare
from seer.cli.journal import Journal, JournalGroup
from seer.cli.messages import tell
from seer.cli.outdir import open_out_dir, trace_path
from seer.cli.session import generate
from seer.cli.settings import RolloutSettings
from seer.cli.summary import closing_lines, write_summary
from seer.errors import SeerError
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult


def run_rollout(settings: RolloutSettings) -> None:
    """Generate groups of responses to prompts and write them to a directory."""
    directory = open_out_dir(settings.out, resume=settings.resume)
    job = prepare(settings)
    open_journal = Journal.reopen if settings.resume else Journal.create
    journal = open_journal(directory, job.header)
    missing = [p for p in job.prompts if p.sampling_index not in journal.groups]
    num_resumed = len(journal.groups)
    try:
        metrics = _generate_missing(job, settings.policy, missing, journal, directory)
    except (KeyboardInterrupt, SeerError):
        journal.close()
        tell(_what_is_missing(job, journal, settings.out))
        raise
    completions = journal.completions()
    results = directory / f"completions.{settings.format}"
    write_completions(results, completions)
    write_summary(directory, settings, metrics, completions, num_resumed)
    journal.remove()
    for line in closing_lines(settings, metrics, completions, results):
        typer.echo(line)


def _generate_missing(
    job: Job, policy: str, missing: Sequence[PromptItem], journal: Journal, directory: Path
) -> RolloutMetrics | None:
    """Bring the journal to completion; None when nothing was missing."""
    if journal.groups:
        tell(f"resuming: {len(journal.groups)} of {len(job.prompts)} groups are there")
    if not missing:
        return None
    places = {prompt.prompt_id: prompt.sampling_index for prompt in missing}

    def keep(group: GroupResult) -> None:
        journal.append(_journal_group(places[group.prompt_id], group))

    return run_interruptible(generate(job, policy, missing, trace_path(directory), keep))


def _journal_group(place: int | None, group: GroupResult) -> JournalGroup:
    assert place is not None  # noqa: S101 - every prompt of a job has its place
    rows = [
        Completion(
            prompt_id=group.prompt_id,
            prompt_token_ids=group.prompt_token_ids,
            metadata=dict(group.metadata),
            member=each.member,
            output_token_ids=each.output_token_ids,
            text=each.text,
            logprobs=each.logprobs,
            finish_reason=each.finish_reason,
            started_s=each.started_s,
            finished_s=each.finished_s,
        )
        for each in group.completions
    ]
    return JournalGroup(prompt_index=place, completions=rows)


def _what_is_missing(job: Job, journal: Journal, out: str) -> str:
    names = [p.prompt_id or "" for p in job.prompts if p.sampling_index not in journal.groups]
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")  # noqa: PLR2004
    return (
        f"{len(journal.groups)} of {len(job.prompts)} groups are in {out}; "
        f"missing: {shown}; the same command with --resume generates them"
    )
