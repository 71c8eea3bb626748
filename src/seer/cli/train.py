"""`seer train`: GRPO on generated tasks, with Seer as the rollout."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from seer.cli.faithful import require_faithful
from seer.cli.messages import tell
from seer.cli.model import model_dir
from seer.cli.train_display import open_train_display
from seer.engines.vllm.spec import VllmSpec
from seer.trainers.training.config import TrainConfig
from seer.trainers.training.model_check import engine_spec
from seer.trainers.training.run import train
from seer.types import SamplingParams


def run_train(config: TrainConfig) -> None:
    """Train a model by GRPO on reasoning-gym tasks, with rollouts by Seer."""
    model = model_dir(config.model)
    _check_drafts(config, model)
    try:
        with _terminable(), open_train_display(Console(stderr=True), config) as display:
            trained = train(config, model, display)
    except KeyboardInterrupt:
        tell(f"interrupted; the same command with --resume goes on in {config.out}")
        raise
    typer.echo(f"made: {trained} (metrics, evaluations and samples beside it)")
    typer.echo(f"try next: seer rollout --model {trained} --prompts reasoning-gym:{_tasks(config)}")


def _check_drafts(config: TrainConfig, model: str) -> None:
    """Drafts in vLLM are for an engine that has passed `seer check`. Raises InvalidInput."""
    spec = engine_spec(config, model)
    if isinstance(spec, VllmSpec) and config.rollout_drafting.is_on:
        sampling = SamplingParams(temperature=config.temperature)
        require_faithful(spec, config.rollout_drafting.budget, sampling)


def _tasks(config: TrainConfig) -> str:
    return ",".join(dict.fromkeys(task.name for task in config.tasks))


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does: with processes and files closed."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
