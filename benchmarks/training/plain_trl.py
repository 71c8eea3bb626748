"""The run of a `seer train` file by TRL alone, for comparison: same items, order, reward and loss.

TRL generates by transformers' `generate`, in its own batches. Nothing is evaluated or saved. A JSON
line a step: {"step", "seconds", "reward", "mean_tokens"}; seconds are of the whole iteration.

    python benchmarks/training/plain_trl.py examples/train_arithmetic.toml --steps 5
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
from trl import GRPOTrainer

from seer.cli.model import model_dir
from seer.cli.train_settings import load_train_config
from seer.trainers.training.grpo import grpo_arguments, silence_libraries
from seer.trainers.training.items import Item, make_items, order_of
from seer.trainers.training.model_check import load_tokenizer
from seer.trainers.training.reward_messages import RewardCall, RewardRules, Scored
from seer.trainers.training.reward_worker import Scorer


class StepPrinter(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """A line for each step."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._seconds = 0.0

    def on_step_begin(self, *_: object, **__: object) -> None:
        """An iteration begins."""
        self._began_s = time.perf_counter()

    def on_step_end(self, *_: object, **__: object) -> None:
        """It is over; what it was is logged next."""
        self._seconds = time.perf_counter() - self._began_s

    def on_log(
        self, args: object, state: Any, control: object, logs: dict[str, float], **_: object
    ) -> None:
        """TRL has its figures of the step."""
        del args, control
        if "reward" in logs:
            row = {
                "step": state.global_step,
                "seconds": self._seconds,
                "reward": logs["reward"],
                "mean_tokens": logs["completions/mean_length"],
            }
            print(json.dumps(row), flush=True)


def main() -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="out/plain_trl")
    given = parser.parse_args()
    flags = {"steps": given.steps, "seed": given.seed, "out": given.out, "log": []}
    config = load_train_config(given.config, flags)
    items = make_items(config)
    order = order_of(len(items.train), config.seed)
    schedule = [items.train[next(order)] for _ in range(given.steps * config.prompts_per_step)]
    scorer = Scorer(RewardRules(data_sets=items.data_sets, partial_credit=config.partial_credit))

    def reward(completions: list[Any], item: list[int], **_: object) -> list[float]:
        return [
            _score(scorer, schedule[place], completion[0]["content"])
            for place, completion in zip(item, completions, strict=True)
        ]

    silence_libraries()
    model = model_dir(config.model)
    rows = [{"prompt": item.messages, "item": place} for place, item in enumerate(schedule)]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        processing_class=load_tokenizer(model),
        args=grpo_arguments(config),
        train_dataset=Dataset.from_list(rows),
        reward_funcs=[reward],
        callbacks=[StepPrinter()],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def _score(scorer: Scorer, item: Item, response: str) -> float:
    call = RewardCall(
        data_set=item.data_set, index=item.index, prompt=item.question, response=response
    )
    outcome = scorer.score(call)
    return outcome.reward if isinstance(outcome, Scored) else 0.0


if __name__ == "__main__":
    main()
