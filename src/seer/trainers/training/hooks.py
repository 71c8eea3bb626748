"""What happens at each step of TRL's trainer: its rollout, its reward, and its callbacks."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.trainers.training.checkpoints import PREFIX, keep_newest, mark_complete
from seer.trainers.training.config import TrainConfig
from seer.trainers.training.evaluation import Evaluator
from seer.trainers.training.items import Item
from seer.trainers.training.iteration import IterationClock
from seer.trainers.training.out_dir import RunFiles
from seer.trainers.training.report import Report
from seer.trainers.training.rewards import RewardBook
from seer.trainers.training.samples import RewardError, Sample
from seer.trainers.training.step_row import EvaluationRow, StepFigures
from seer.trainers.trl import SeerRollout
from seer.types import SamplingParams


class StepHooks:
    """The rollout and the reward function of the trainer, with the clock of its iterations."""

    def __init__(
        self, config: TrainConfig, schedule: Sequence[Item], book: RewardBook, files: RunFiles
    ) -> None:
        """`schedule` has the items of every step, in order."""
        self._config = config
        self._schedule = schedule
        self._book = book
        self._files = files
        self.clock = IterationClock(time.perf_counter)
        self.samples: list[Sample] = []
        """Of the step in progress."""

    def on_group(self, group: GroupResult) -> None:
        """Start the rewards of a finished group."""
        self._book.add(int(group.prompt_id), group)

    def rollout(self, rollout: SeerRollout, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """TRL's `rollout_func`, but for the first argument."""
        step = trainer.state.global_step
        per_step = self._config.prompts_per_step
        items = self._schedule[step * per_step : (step + 1) * per_step]
        asked = [item.messages for item in items]
        assert prompts[:: self._config.group_size] == asked  # noqa: S101 - TRL keeps the order
        self._book.open(step + 1, items)
        output = rollout(prompts, trainer)
        assert rollout.iteration is not None  # noqa: S101 - set by every call
        self.clock.rolled_out(
            rollout_s=rollout.iteration.rollout_s,
            weight_update_s=rollout.iteration.weight_update_s,
            check_s=rollout.iteration.check_s,
        )
        return output

    def reward(self, completion_ids: Sequence[Sequence[int]], **_: object) -> list[float]:
        """TRL's reward function: what was begun in `on_group`, in TRL's order."""
        started_s = time.perf_counter()
        self.samples = self._book.collect()
        self.clock.scored(reward_wait_s=time.perf_counter() - started_s)
        lengths = [len(token_ids) for token_ids in completion_ids]
        assert lengths == [sample.num_tokens for sample in self.samples]  # noqa: S101 - one order
        self._save(self.samples)
        return [sample.reward for sample in self.samples]

    def _save(self, samples: Sequence[Sample]) -> None:
        limit = self._config.sample_prompts
        kept = None if limit is None else limit * self._config.group_size
        self._files.samples.append(*samples[:kept])
        errors = [_reward_error(sample, sample.error) for sample in samples if sample.error]
        self._files.reward_errors.append(*errors)


class RunCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Closes the books of each step: evaluation, checkpoint, metrics."""

    def __init__(
        self,
        config: TrainConfig,
        *,
        hooks: StepHooks,
        rollout: SeerRollout,
        evaluator: Evaluator | None,
        files: RunFiles,
        report: Report,
    ) -> None:
        """`evaluator` None: there are no held-out items."""
        self._config = config
        self._hooks = hooks
        self._rollout = rollout
        self._evaluator = evaluator
        self._files = files
        self._report = report
        self._figures: StepFigures | None = None
        self.trainer: Any = None
        """Set when the trainer is made, which needs this callback first."""
        self.saving_step: int | None = None
        """The step whose checkpoint is being written."""

    def logs(self) -> dict[str, float]:
        """Figures for the trainer's log event of the step that has just ended."""
        assert self._figures is not None  # noqa: S101 - the step has ended
        return self._figures.logs()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Evaluate the first weights."""
        del args, control
        if state.global_step == 0:
            self._evaluate(0)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """An iteration begins."""
        del args, state, control
        self._hooks.clock.start()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """An iteration is over; save it when it is time."""
        del args
        iteration = self._rollout.iteration
        self._figures = StepFigures(
            samples=tuple(self._hooks.samples),
            split=self._hooks.clock.finish(),
            difference=iteration.difference if iteration else None,
        )
        control.should_save = self._is_due(state.global_step, self._config.checkpoint_every)
        return control

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float],
        **_: Any,
    ) -> None:
        """Write the line of a step, then evaluate when it is time: before the step is saved."""
        del args
        if "loss" not in logs:
            return
        assert self._figures is not None  # noqa: S101 - the step has ended
        row = self._figures.row(state.global_step, logs)
        self._files.metrics.append(row)
        self._report.step(row)
        if self._is_due(state.global_step, self._config.eval_every):
            self._evaluate(state.global_step)
        if control.should_save:
            self.saving_step = state.global_step

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """The checkpoint's files are written: make it count."""
        del control
        out = Path(args.output_dir)
        self._files.sync()
        directory = out / f"{PREFIX}{state.global_step}"
        mark_complete(directory, state.global_step, self._config)
        self.saving_step = None
        keep_newest(out, self._config.keep_checkpoints)

    def _is_due(self, step: int, every: int) -> bool:
        return step == self._config.steps or (every > 0 and step % every == 0)

    def _evaluate(self, step: int) -> None:
        if self._evaluator is None:
            return
        sampling = SamplingParams(
            temperature=self._config.eval_temperature, max_tokens=self._config.max_tokens
        )

        def sample(prompts: Sequence[PromptItem], on_group: Callable[[GroupResult], None]) -> None:
            self._rollout.sample(
                prompts, self.trainer, group_size=1, sampling=sampling, on_group=on_group
            )

        row = self._evaluator.evaluate(step, sample)
        self._files.evaluations.append(row)
        self._report.evaluation(row)
        self.trainer.log(_evaluation_logs(row))


def _evaluation_logs(row: EvaluationRow) -> dict[str, float]:
    by_task = {f"eval_accuracy/{task}": value for task, value in row.accuracy_by_task.items()}
    return {"eval_accuracy": row.accuracy, "eval_mean_tokens": row.mean_tokens, **by_task}


def _reward_error(sample: Sample, why: str) -> RewardError:
    return RewardError(
        step=sample.step,
        item=sample.item,
        task=sample.task,
        member=sample.member,
        prompt=sample.prompt,
        response=sample.response,
        why=why,
        reward=sample.reward,
    )
