"""Settings of a training run: what is refused, and what the baseline changes."""

from typing import Any

import pytest

from seer.errors import InvalidInput
from seer.trainers.training.config import BASELINE_POLICY, TaskConfig, TrainConfig

TASKS = [TaskConfig(name="chain_sum")]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"tasks": []}, "tasks: got"),
        ({"num_items": 0}, "num_items: got 0"),
        ({"held_out_items": -1}, "held_out_items: got -1"),
        ({"group_size": 1}, "group_size: got 1"),
        ({"batch_size": 30}, "batch_size: got 30; allowed: a multiple of group_size, 8"),
        ({"micro_batch_size": 5}, "micro_batch_size: got 5; allowed: a divisor of batch_size"),
        ({"steps": 0}, "steps: got 0"),
        ({"learning_rate": float("nan")}, "learning_rate: got nan"),
        ({"temperature": 0.0}, r"temperature: got 0\.0"),
        ({"reward_timeout_s": 0.0}, r"reward_timeout_s: got 0\.0"),
        ({"reward_on_error": float("inf")}, "reward_on_error: got inf"),
        ({"policy": "fastest"}, "policy: got 'fastest'"),
        ({"policy": "oracle"}, "policy: got 'oracle'"),
        ({"drafting": "fixed:99"}, "drafting: got 'fixed:99'"),
        ({"log": ["csv"]}, "log: got 'csv'; allowed: tensorboard, wandb"),
        (
            {"warm_start": True, "drafting": "off"},
            "warm_start: got True; allowed: false while drafting is off",
        ),
        ({"reward_function": "a:b", "partial_credit": True}, "partial_credit: got True"),
        ({"reward_function": "a:b", "format_bonus": 0.1}, r"format_bonus: got 0\.1"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], named: str) -> None:
    """Each bad or contradictory setting is named with its value and what is allowed."""
    with pytest.raises(InvalidInput, match=named):
        TrainConfig(**{"tasks": TASKS, **settings})


@pytest.mark.parametrize("settings", [{"weight": 0.0}, {"params": {"seed": 3}}])
def test_bad_task_settings_are_named(settings: dict[str, Any]) -> None:
    """A task needs a positive weight, and its seed is the run's to set."""
    with pytest.raises(InvalidInput, match=r"tasks\."):
        TaskConfig(name="chain_sum", **settings)


def test_baseline_turns_division_and_drafting_off() -> None:
    """The baseline keeps the file's policy and drafting, and runs without either."""
    config = TrainConfig(tasks=TASKS, policy="divided", drafting="fixed:4", baseline=True)
    assert config.rollout_policy == BASELINE_POLICY
    assert not config.rollout_drafting.is_on


def test_prompts_per_step() -> None:
    """A batch is made of whole groups."""
    assert TrainConfig(tasks=TASKS, batch_size=32, group_size=8).prompts_per_step == 4
