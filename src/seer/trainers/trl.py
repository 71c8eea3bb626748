"""Seer as the rollout of TRL's GRPOTrainer, through its `rollout_func` argument.

>>> from seer.trainers.trl import seer_rollout
>>> trainer = GRPOTrainer(..., rollout_func=seer_rollout("path/to/model"))

TRL calls the function with the prompts of one generation batch, each repeated `num_generations`
times in a row (its own documentation says otherwise), and reads one completion for each of them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from seer.rollout.config import RolloutConfig
from seer.rollout.prompts import Prompt
from seer.rollout.results import GroupResult
from seer.trainers.on_policy import OnPolicyCheck
from seer.trainers.trl_report import IterationReport
from seer.trainers.trl_trainer import Trainer
from seer.types import SamplingParams

OnGroup = Callable[[GroupResult], None]


class SeerRollout:
    """TRL's `rollout_func`: call it with the prompts and the trainer.

    The instances start at the first call and stay up until `close`. Before a rollout they get the
    trainer's weights if these have changed since the last one.
    """

    iteration: IterationReport | None
    """The last call; None before the first."""

    def __init__(
        self,
        config: RolloutConfig,
        *,
        sampling: SamplingParams | None = None,
        on_group: OnGroup | None = None,
        weights_dir: Path | None = None,
        check: OnPolicyCheck | None = None,
    ) -> None:
        """`config` says what runs; its engine must be of the model that is trained.

        `sampling` None: the trainer's own (temperature, filters, max_completion_length, seed, end
        tokens). `on_group` is called in the trainer's thread with each group as soon as it is
        finished, while others still generate; its `prompt_id` is the number of the group in the
        batch, and `metadata["prompt"]` the prompt as TRL gave it. `weights_dir`: where weights are
        written; None: shared memory if it has room, else the temporary directory. `check` None:
        `OnPolicyCheck()`, every row.
        """

    def __call__(self, prompts: list[Any], trainer: Trainer) -> dict[str, Any]:
        """One completion for each prompt, in their order.

        Returns `prompt_ids` and `completion_ids` [rows][tokens], and `logprobs` [rows][tokens] at
        the sampling temperature, None where the engine reports others. The draws depend on the
        seed, `global_step` and the group's place in the batch alone, so a resumed run draws what
        an uninterrupted one does. Raises InvalidInput when the prompts are no runs of
        `num_generations` equal ones, or trainer and engine do not fit each other.
        """

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

    def close(self) -> None:
        """End the instances and remove the weights. Idempotent; a later call starts again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
