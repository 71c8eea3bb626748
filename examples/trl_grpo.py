"""GRPO with TRL's trainer on arithmetic from reasoning-gym, with Seer as its rollout.

Run: `python examples/trl_grpo.py [STEPS]` (needs the extras `local`, `tasks` and `trl`).
The lines that differ from a script without Seer are marked.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import reasoning_gym
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

from seer.engines.local.default_model import default_model_dir
from seer.trainers.trl import seer_rollout  # Seer

TASKS = reasoning_gym.create_dataset("chain_sum", seed=1, size=256, max_terms=2, max_digits=1)


def main(steps: int) -> None:
    """Train SmolLM2-135M for a few steps; print the reward and what the rollout came to."""
    model = str(default_model_dir(notify=print))
    questions = [f"{entry['question']} End with the number." for entry in TASKS]
    rows = [
        {"prompt": [{"role": "user", "content": question}], "item": place}
        for place, question in enumerate(questions)
    ]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        args=GRPOConfig(
            output_dir="out/trl_grpo",
            max_steps=steps,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            num_generations=8,
            max_completion_length=48,
            learning_rate=1e-5,
            bf16=False,
            gradient_checkpointing=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
        ),
        train_dataset=Dataset.from_list(rows),
        reward_funcs=[is_right],
        rollout_func=seer_rollout(model),  # Seer
    )
    trainer.train()
    for log in trainer.state.log_history:
        if "seer/rollout_s" in log:
            shown = ("reward", "seer/rollout_s", "step_time", "seer/logprob_difference/max")
            print({name: log[name] for name in shown})


def is_right(
    completions: Sequence[Sequence[Mapping[str, str]]], item: Sequence[int], **_: Any
) -> list[float]:
    """1 for a response that ends with the right number, else 0."""
    answers = [last_number(completion[0]["content"]) for completion in completions]
    return [
        float(TASKS.score_answer(answer=answer, entry=TASKS[place]) == 1.0)
        for answer, place in zip(answers, item, strict=True)
    ]


def last_number(text: str) -> str:
    """The last word of a response that is a number."""
    words = [word.strip(".,:;!?*$") for word in text.split()]
    return next((word for word in reversed(words) if word.lstrip("-").isdigit()), "")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
