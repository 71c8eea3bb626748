"""One rollout session of a job: instances up, groups out as they finish, instances down."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from rich.console import Console

from seer.cli.display import open_display
from seer.cli.job import Job
from seer.cli.messages import tell
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.rollout.rollout import Rollout


async def generate(
    job: Job,
    policy: str,
    prompts: Sequence[PromptItem],
    trace_path: Path | None,
    on_group: Callable[[GroupResult], None],
) -> RolloutMetrics:
    """Generate the responses to `prompts`; `on_group` gets each group when it is complete."""
    settings = job.settings
    tell(f"loading {settings.instances} instances of {job.spec.model} ({job.spec.dtype})")
    async with Rollout(job.config(policy, trace_path)) as rollout:
        with open_display(Console(stderr=True), _title(job, policy, len(prompts))) as show:
            stream = rollout.stream(
                prompts,
                group_size=settings.group_size,
                sampling=job.sampling,
                on_progress=show,
            )
            async with aclosing(stream) as groups:
                async for group in groups:
                    on_group(group)
        return rollout.metrics()


def _title(job: Job, policy: str, num_prompts: int) -> str:
    settings = job.settings
    return (
        f"{policy}: {num_prompts} prompts x {settings.group_size} responses of up to "
        f"{settings.max_tokens} tokens on {settings.instances} instances"
    )
