"""Seer as the rollout of TRL's GRPOTrainer, through its `rollout_func` argument.

>>> from seer.trainers.trl import seer_rollout
>>> trainer = GRPOTrainer(..., rollout_func=seer_rollout("path/to/model"))

TRL calls the function with the prompts of one generation batch, each repeated `num_generations`
times in a row (its own documentation says otherwise), and reads one completion for each of them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from seer.drafting.config import OFF, DraftingConfig
from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec
from seer.rollout.config import RolloutConfig
from seer.rollout.prompts import Prompt, PromptItem
from seer.rollout.results import GroupResult
from seer.rollout.rollout import OnProgress
from seer.trainers.draw_seeds import DrawSeeds
from seer.trainers.engine_fit import check_fit, local_spec
from seer.trainers.on_policy import Difference, OnPolicyCheck
from seer.trainers.policy_session import PolicySession
from seer.trainers.prompt_runs import prompt_runs
from seer.trainers.trl_check import check_comparable, check_on_policy, logprob_temperature
from seer.trainers.trl_report import IterationReport
from seer.trainers.trl_trainer import (
    Trainer,
    check_sampling,
    check_supported,
    encode_prompt,
    group_size,
    trainer_sampling,
)
from seer.types import SamplingParams

OnGroup = Callable[[GroupResult], None]


class SeerRollout:
    """TRL's `rollout_func`: call it with the prompts and the trainer.

    The instances start at the first call and stay up until `close`, or until the interpreter ends.
    Before a rollout they get the trainer's weights if these have changed since the last one.
    """

    def __init__(
        self,
        config: RolloutConfig,
        *,
        sampling: SamplingParams | None = None,
        on_group: OnGroup | None = None,
        on_progress: OnProgress | None = None,
        weights_dir: Path | None = None,
        check: OnPolicyCheck | None = None,
    ) -> None:
        """`config` says what runs; its engine must be of the model that is trained.

        `sampling` None: the trainer's own (temperature, filters, max_completion_length, seed, end
        tokens). `on_group` is called in the trainer's thread with each group as soon as it is
        finished, while others still generate; its `prompt_id` is the number of the group in the
        batch, and `metadata["prompt"]` the prompt as TRL gave it. `on_progress` gets
        the rollout's state, on its thread, ten times a second at most. `weights_dir`: where weights
        are written; None: shared memory if it has room, else the temporary directory. `check` None:
        `OnPolicyCheck()`, every row.
        """
        self.iteration: IterationReport | None = None
        """The last call; None before the first."""
        self._engine = local_spec(config.engine)
        self._config = config
        self._sampling = sampling
        self._on_group = on_group
        self._check = check or OnPolicyCheck()
        self._session = PolicySession(config, weights_dir, on_progress)
        self._seeds = DrawSeeds()
        self._fits: object = None
        """The model that has been compared with the engine's."""

    def __call__(self, prompts: list[Any], trainer: Trainer) -> dict[str, Any]:
        """One completion for each prompt, in their order.

        Returns `prompt_ids` and `completion_ids` [rows][tokens], and `logprobs` [rows][tokens] at
        the sampling temperature, None where the engine reports others. The draws depend on the
        seed, `global_step` and the group's place in the batch alone, so a resumed run draws what
        an uninterrupted one does. Raises InvalidInput when the prompts are no runs of
        `num_generations` equal ones, or trainer and engine do not fit each other; OffPolicy when
        the log-probabilities differ by more than the check allows.
        """
        asked = self._ask(prompts, trainer)
        update_s = self._update(trainer)
        before = self._session.metrics()
        began = time.perf_counter()
        groups = self._session.generate(
            asked.items, asked.group_size, self._keyed(asked.sampling, trainer), self._on_group
        )
        rolled_out = time.perf_counter()
        difference = self._compare(asked, groups, trainer)
        self.iteration = IterationReport.of(
            before,
            self._session.metrics(),
            global_step=trainer.state.global_step,
            is_training=trainer.model.training,
            weight_version=self._session.weight_version,
            weight_update_s=update_s,
            rollout_s=rolled_out - began,
            check_s=time.perf_counter() - rolled_out,
            difference=difference,
        )
        for name, value in self.iteration.as_log().items():
            trainer._log_metric(name, value)  # noqa: SLF001 - public to reward functions only
        return _rows(asked, groups)

    def sample(
        self,
        prompts: Sequence[Prompt],
        trainer: Trainer,
        *,
        group_size: int,
        sampling: SamplingParams,
        on_group: OnGroup | None = None,
    ) -> list[GroupResult]:
        """Groups from the trainer's weights as they are now: an evaluation outside TRL's own.

        Prompts are not repeated, and `sampling` is taken as it is, its seed too. Nothing is
        compared. In the order of the prompts.
        """
        check_supported(trainer)
        items = [p if isinstance(p, PromptItem) else PromptItem(prompt=p) for p in prompts]
        self._update(trainer)
        return self._session.generate(items, group_size, sampling, on_group)

    def close(self) -> None:
        """End the instances and remove the weights. Idempotent; a later call starts again."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _ask(self, prompts: list[Any], trainer: Trainer) -> "_Asked":
        """The call, checked. Raises InvalidInput."""
        check_supported(trainer)
        size = group_size(trainer)
        runs = prompt_runs(prompts, size)
        sampling = self._sampling or trainer_sampling(trainer)
        check_sampling(trainer, sampling)
        temperature = logprob_temperature(self._engine, sampling)
        check_comparable(self._check, temperature)
        return _Asked(
            items=[_item(trainer, prompt, place) for place, prompt in enumerate(runs)],
            group_size=size,
            sampling=sampling,
            logprob_temperature=temperature,
        )

    def _keyed(self, sampling: SamplingParams, trainer: Trainer) -> SamplingParams:
        """The same with the seed of this call."""
        is_training = trainer.model.training
        seed = self._seeds.next(sampling.seed, trainer.state, is_training=is_training)
        return msgspec.structs.replace(sampling, seed=seed)

    def _update(self, trainer: Trainer) -> float:
        """Seconds of the weight update; the models are compared when one is first seen."""
        if self._fits is not trainer.model:
            check_fit(self._config.engine, trainer.model.config, len(trainer.processing_class))
            self._fits = trainer.model
        return self._session.update(trainer)

    def _compare(
        self, asked: "_Asked", groups: Sequence[GroupResult], trainer: Trainer
    ) -> Difference | None:
        """None when nothing is to be compared. Raises OffPolicy."""
        temperature = asked.logprob_temperature
        if temperature is None or not self._check.share:
            return None
        return check_on_policy(self._check, self._engine, trainer, groups, temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What one call asks for."""

    items: list[PromptItem]
    group_size: int
    sampling: SamplingParams
    logprob_temperature: float | None
    """Of the engine's log-probabilities; None: they are those after filters."""


def seer_rollout(
    model: str | Path,
    *,
    num_instances: int = 2,
    dtype: str = "float32",
    device: str = "cpu",
    kv_tokens: int = 8192,
    max_running_requests: int = 32,
    logprobs: Literal["raw", "processed"] = "processed",
    policy: str = "divided",
    chunk_size: int | None = 128,
    drafting: str = OFF,
    sampling: SamplingParams | None = None,
    on_group: OnGroup | None = None,
    weights_dir: Path | None = None,
    check: OnPolicyCheck | None = None,
) -> SeerRollout:
    """A `rollout_func` over local instances, each a process of its own.

    `model`: the directory of the model that is trained, in Hugging Face format; its configuration
    and tokenizer are used, the weights come from the trainer. `dtype` is best the trainer's:
    float32 with `bf16=False`. Filters (top_p, top_k, min_p) need `logprobs="raw"`, or no check.
    Other settings: LocalSpec, RolloutConfig, DraftingConfig and SeerRollout.
    """
    spec = LocalSpec(
        model=str(model),
        dtype=dtype,
        device=device,
        kv_tokens=kv_tokens,
        max_running_requests=max_running_requests,
        logprobs=logprobs,
    )
    config = RolloutConfig(
        engine=ProcessSpec(inner=spec),
        num_instances=num_instances,
        policy=policy,
        chunk_size=chunk_size,
        drafting=DraftingConfig(budget=drafting),
    )
    return SeerRollout(
        config, sampling=sampling, on_group=on_group, weights_dir=weights_dir, check=check
    )


def _item(trainer: Trainer, prompt: Any, place: int) -> PromptItem:
    return PromptItem(
        prompt=encode_prompt(trainer, prompt),
        prompt_id=str(place),
        metadata={"prompt": prompt},
        sampling_index=place,
    )


def _rows(asked: _Asked, groups: Sequence[GroupResult]) -> dict[str, Any]:
    """What TRL takes: every completion has a token at least, its end token, so none is empty."""
    rows = [(group, completion) for group in groups for completion in group.completions]
    is_policy = asked.logprob_temperature == asked.sampling.temperature
    return {
        "prompt_ids": [group.prompt_token_ids for group, _ in rows],
        "completion_ids": [completion.output_token_ids for _, completion in rows],
        "logprobs": [completion.logprobs for _, completion in rows] if is_policy else None,
    }
