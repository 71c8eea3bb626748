"""GRPO by `seer train` with a reward of your own: here for answers that are right and short.

Run: `python examples/custom_reward.py [STEPS]` (needs the extras `local`, `tasks` and `trl`; writes
about 2 GB to out/custom_reward). The command line does the same with `reward_function =
"examples/custom_reward.py:score"` in its TOML file.
"""

import sys
from pathlib import Path
from typing import Any

from seer.engines.local.default_model import default_model_dir
from seer.trainers.training.config import TaskConfig, TrainConfig
from seer.trainers.training.run import train
from seer.trainers.training.step_row import EvaluationRow, StepRow


def score(completion: str, entry: dict[str, Any], **_: Any) -> float:
    """The reward of one response; `entry` is the reasoning-gym item that it answers.

    Called in processes of its own, while other groups still generate.
    """
    is_right = entry["answer"] in completion.split()
    return float(is_right) + 1 / (1 + len(completion.split()))


class Printed:
    """A report of the run."""

    def say(self, line: str) -> None:
        """What is being done."""
        print(line)

    def step(self, row: StepRow) -> None:
        """A step is done."""
        print(f"step {row.step}: reward {row.reward:.3f}, {row.mean_tokens:.0f} tokens a response")

    def evaluation(self, row: EvaluationRow) -> None:
        """An evaluation is done."""
        print(f"after step {row.step}: {row.accuracy:.2f} of {row.num_items} held-out items right")


def main(steps: int) -> None:
    """Train SmolLM2-135M for a few steps."""
    config = TrainConfig(
        tasks=[TaskConfig(name="chain_sum", params={"max_terms": 2, "max_digits": 1})],
        reward_function=f"{Path(__file__).resolve()}:score",
        steps=steps,
        num_items=40,
        held_out_items=0,
        group_size=4,
        batch_size=8,
        micro_batch_size=8,
        max_tokens=24,
        kv_tokens=1024,
        out="out/custom_reward",
    )
    print("trained model:", train(config, str(default_model_dir(notify=print)), Printed()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
