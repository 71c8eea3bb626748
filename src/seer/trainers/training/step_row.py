"""What one step, and one evaluation, came to: the lines of metrics.jsonl and evaluations.jsonl."""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from seer.trainers.on_policy import Difference
from seer.trainers.training.iteration import Split
from seer.trainers.training.samples import Sample


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of metrics.jsonl."""

    step: int
    reward: float
    """Mean over all responses."""
    reward_by_task: dict[str, float]
    num_reward_errors: int
    num_tokens: int
    """Output tokens of all responses."""
    mean_tokens: float
    """Output tokens of a response."""
    tokens_per_s: float
    """Output tokens over the seconds of rollout."""
    max_logprob_delta: float | None
    """Largest difference between the rollout's and the trainer's log-probability of a token."""
    max_logprob_delta_float64: float | None
    """The same from the trainer's model in float64, where the limit was passed; None: nowhere."""
    total_s: float
    rollout_s: float
    reward_wait_s: float
    train_s: float
    weight_update_s: float
    check_s: float
    other_s: float
    loss: float
    grad_norm: float
    learning_rate: float


class EvaluationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of evaluations.jsonl."""

    step: int
    """Optimiser steps before it."""
    accuracy: float
    """Share of held-out items whose answer the verifier gives a full score."""
    accuracy_by_task: dict[str, float]
    num_items: int
    mean_tokens: float
    seconds: float


class StepFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A step's figures before the trainer has logged its own."""

    samples: tuple[Sample, ...]
    split: Split
    difference: Difference | None
    """Of log-probabilities; None: none were compared."""

    def row(self, step: int, logs: dict[str, float]) -> StepRow:
        """The line of the step; `logs` are the trainer's."""
        num_tokens = sum(sample.num_tokens for sample in self.samples)
        split, difference = self.split, self.difference
        exact = difference.exact if difference else None
        return StepRow(
            step=step,
            reward=fmean(sample.reward for sample in self.samples),
            reward_by_task=reward_by_task(self.samples),
            num_reward_errors=num_errors(self.samples),
            num_tokens=num_tokens,
            mean_tokens=num_tokens / len(self.samples),
            tokens_per_s=num_tokens / split.rollout_s if split.rollout_s > 0 else 0.0,
            max_logprob_delta=difference.largest if difference else None,
            max_logprob_delta_float64=exact.largest if exact else None,
            total_s=split.total_s,
            rollout_s=split.rollout_s,
            reward_wait_s=split.reward_wait_s,
            train_s=split.train_s,
            weight_update_s=split.weight_update_s,
            check_s=split.check_s,
            other_s=split.other_s,
            loss=logs["loss"],
            grad_norm=logs["grad_norm"],
            learning_rate=logs["learning_rate"],
        )

    def logs(self) -> dict[str, float]:
        """What the trainer does not log by itself, under the names that TensorBoard shows.

        The rollout logs its own parts.
        """
        by_task = reward_by_task(self.samples)
        return {
            "seer/iteration_s": self.split.total_s,
            "seer/reward_wait_s": self.split.reward_wait_s,
            "seer/train_s": self.split.train_s,
            "seer/other_s": self.split.other_s,
            "seer/reward_errors": float(num_errors(self.samples)),
            **{f"reward/{task}": mean for task, mean in by_task.items()},
        }


def num_errors(samples: Sequence[Sample]) -> int:
    """Responses whose reward call gave no reward."""
    return sum(sample.error is not None for sample in samples)


def reward_by_task(samples: Sequence[Sample]) -> dict[str, float]:
    """Mean reward of each task, in the order of first appearance."""
    return mean_by_task([(sample.task, sample.reward) for sample in samples])


def mean_by_task(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Mean of the values of each task, in the order of first appearance."""
    by_task: dict[str, list[float]] = {}
    for task, value in values:
        by_task.setdefault(task, []).append(value)
    return {task: fmean(each) for task, each in by_task.items()}
