"""One rollout session of a job: instances up, groups out as they finish, instances down."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

from rich.console import Console

from seer.cli.display import Show, open_display
from seer.cli.job import Job
from seer.cli.messages import tell
from seer.cli.settings import Settings
from seer.monitoring.endpoint import MetricsPage
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult, RolloutProgress
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
    with _metrics_page(settings) as show_metrics:
        async with Rollout(job.config(policy, trace_path)) as rollout:
            with open_display(Console(stderr=True), _title(job, policy, len(prompts))) as show:

                def show_all(now: RolloutProgress) -> None:
                    show(now)
                    show_metrics(now)

                stream = rollout.stream(
                    prompts,
                    group_size=settings.group_size,
                    sampling=job.sampling,
                    on_progress=show_all,
                )
                async with aclosing(stream) as groups:
                    async for group in groups:
                        on_group(group)
            return rollout.metrics()


@contextmanager
def _metrics_page(settings: Settings) -> Iterator[Show]:
    """What takes a state to Prometheus's page, if one is asked for."""
    if settings.metrics_port is None:
        yield lambda _: None
        return
    with MetricsPage.served(settings.metrics_host, settings.metrics_port) as page:
        yield page.show


def _title(job: Job, policy: str, num_prompts: int) -> str:
    settings = job.settings
    return (
        f"{policy}: {num_prompts} prompts x {settings.group_size} responses of up to "
        f"{settings.max_tokens} tokens on {settings.instances} instances"
    )
