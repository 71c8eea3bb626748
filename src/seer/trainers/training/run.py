"""A training run from its settings: GRPO by TRL's trainer, on rollouts by Seer."""

import functools
import itertools
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seer.engines.process import ProcessSpec
from seer.errors import SeerError
from seer.kvpool.pool import PoolConfig
from seer.monitoring.endpoint import MetricsPage
from seer.rollout.config import RolloutConfig
from seer.rollout.engine import EngineSpec
from seer.scheduling.placement import PlacementConfig
from seer.trainers.on_policy import OnPolicyCheck
from seer.trainers.training.checkpoints import Checkpoint, complete_checkpoints, remove_incomplete
from seer.trainers.training.config import TrainConfig
from seer.trainers.training.evaluation import Evaluator
from seer.trainers.training.items import Item, ItemSet, make_items, order_of
from seer.trainers.training.model_check import (
    check_installed,
    check_prompts,
    check_tokenizer,
    engine_spec,
    load_tokenizer,
)
from seer.trainers.training.out_dir import (
    BEFORE_TRAINING,
    MODEL_NAME,
    REWARD_LOG_NAME,
    RunFiles,
    claim_out_dir,
    open_out_dir,
)
from seer.trainers.training.report import Report
from seer.trainers.training.reward_messages import RewardRules
from seer.trainers.training.reward_pool import RewardPool
from seer.trainers.training.rewards import RewardBook

if TYPE_CHECKING:
    from seer.trainers.training.grpo import SeerTrainer
    from seer.trainers.training.hooks import RunCallback


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A checked run."""

    config: TrainConfig
    model: str
    tokenizer: Any
    items: ItemSet
    rollout: RolloutConfig
    checkpoint: Checkpoint | None
    """Where to go on; None: from the start."""

    @property
    def out(self) -> Path:
        return Path(self.config.out)

    @property
    def first_step(self) -> int:
        """Optimiser steps already made."""
        return self.checkpoint.step if self.checkpoint else 0

    @property
    def schedule(self) -> list[Item]:
        """The items of all steps, in order; a longer run begins as a shorter one does."""
        order = order_of(len(self.items.train), self.config.seed)
        count = self.config.steps * self.config.prompts_per_step
        return [self.items.train[place] for place in itertools.islice(order, count)]


def train(config: TrainConfig, model: str, report: Report) -> Path:
    """Train the model in a directory; returns the directory of the trained one.

    Raises InvalidInput before the model is loaded for whatever can be known by then, EngineFailure
    without a trainer, SeerError when results cannot be written. KeyboardInterrupt passes through
    and leaves the checkpoints.
    """
    run = _prepare(config, model)
    with ExitStack() as stack:
        page = None
        if config.metrics_port is not None:
            served = MetricsPage.served(config.metrics_host, config.metrics_port)
            page = stack.enter_context(served)
        pool = stack.enter_context(_reward_pool(run))
        claim_out_dir(config)
        last_step = run.first_step if run.checkpoint else BEFORE_TRAINING
        files = RunFiles(run.out, last_step)
        stack.callback(files.close)
        trainer, callback = _set_up(run, pool, files, report, stack, page=page)
        _carry_out(run, trainer, callback)
    return run.out / MODEL_NAME


def _prepare(config: TrainConfig, model: str) -> _Prepared:
    check_installed(config)
    items = make_items(config)
    spec = engine_spec(config, model)
    tokenizer = load_tokenizer(model)
    check_tokenizer(model, tokenizer)
    check_prompts(spec, items, config.max_tokens)
    return _Prepared(
        config=config,
        model=model,
        tokenizer=tokenizer,
        items=items,
        rollout=_rollout_config(config, spec),
        checkpoint=open_out_dir(config),
    )


def _rollout_config(config: TrainConfig, spec: EngineSpec) -> RolloutConfig:
    return RolloutConfig(
        engine=ProcessSpec(inner=spec),
        num_instances=config.instances,
        policy=config.rollout_policy,
        chunk_size=config.chunk_size or None,
        placement=PlacementConfig(
            max_spread=config.max_spread, pull_gap_tokens=config.pull_gap_tokens
        ),
        pool=PoolConfig(host_bytes=config.pool_bytes),
        drafting=config.rollout_drafting,
    )


def _reward_pool(run: _Prepared) -> RewardPool:
    config = run.config
    rules = RewardRules(
        data_sets=run.items.data_sets,
        reward_function=config.reward_function,
        partial_credit=config.partial_credit,
        format_bonus=config.format_bonus,
    )
    return RewardPool(
        rules,
        num_workers=config.reward_workers,
        timeout_s=config.reward_timeout_s,
        log_path=run.out / REWARD_LOG_NAME,
    )


def _set_up(
    run: _Prepared,
    pool: RewardPool,
    files: RunFiles,
    report: Report,
    stack: ExitStack,
    *,
    page: MetricsPage | None,
) -> tuple["SeerTrainer", "RunCallback"]:
    """Load the model and make the trainer, with the rollout that `stack` will close."""
    from seer.trainers.training.grpo import (  # noqa: PLC0415 - heavy, optional
        make_trainer,
        silence_libraries,
    )
    from seer.trainers.training.hooks import RunCallback, StepHooks  # noqa: PLC0415
    from seer.trainers.trl import SeerRollout  # noqa: PLC0415

    silence_libraries()
    config, schedule = run.config, run.schedule
    book = RewardBook(pool, reward_on_error=config.reward_on_error)
    hooks = StepHooks(config, schedule, book, files)
    rollout = stack.enter_context(
        SeerRollout(
            run.rollout,
            on_group=hooks.on_group,
            on_progress=page.show if page else None,
            check=OnPolicyCheck(share=config.check_share),
        )
    )
    callback = RunCallback(
        config,
        hooks=hooks,
        rollout=rollout,
        evaluator=_evaluator(run, pool),
        files=files,
        report=report,
    )
    report.say(f"loading {run.model} ({config.dtype}) to train from step {run.first_step}")
    trainer = make_trainer(
        config,
        run.model,
        run.tokenizer,
        schedule,
        rollout=functools.partial(hooks.rollout, rollout),
        reward=hooks.reward,
        callback=callback,
        figures=callback.logs,
        first_step=run.first_step,
    )
    callback.trainer = trainer
    return trainer, callback


def _carry_out(run: _Prepared, trainer: "SeerTrainer", callback: "RunCallback") -> None:
    """Train and save the model. Raises SeerError when something cannot be written."""
    try:
        trainer.train(resume_from_checkpoint=str(run.checkpoint.path) if run.checkpoint else None)
        _save_model(trainer, run.out / MODEL_NAME)
    except SeerError:
        raise
    except Exception as error:
        # A full disk is an error of torch's or safetensors' own kind while they write.
        if callback.saving_step is not None:
            raise _save_failure(run.out, callback.saving_step, error) from error
        if isinstance(error, OSError):
            raise SeerError(f"cannot write to {run.out}: {error}") from error
        raise


def _evaluator(run: _Prepared, pool: RewardPool) -> Evaluator | None:
    if not run.config.evaluates:
        return None
    book = RewardBook(pool, reward_on_error=0.0, by_verifier=True)
    return Evaluator(run.items.held_out, book, time.perf_counter)


def _save_model(trainer: Any, directory: Path) -> None:
    """Write model and tokenizer; an interrupted write leaves what was there before."""
    unfinished = directory.with_name(f".{directory.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    trainer.save_model(str(unfinished))
    shutil.rmtree(directory, ignore_errors=True)
    unfinished.rename(directory)


def _save_failure(out: Path, step: int, error: Exception) -> SeerError:
    """What to raise when a checkpoint could not be written; what there is of it is removed."""
    remove_incomplete(out)
    good = complete_checkpoints(out)
    last = f"the last good one is of step {good[-1].step}" if good else "there is none before it"
    return SeerError(f"cannot write the checkpoint of step {step}: {error}; {last}")
