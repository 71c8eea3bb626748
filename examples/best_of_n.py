"""Best of 16 on arithmetic from reasoning-gym: rewards are computed while others still generate.

Run: `python examples/best_of_n.py` (needs the extras `local` and `tasks`).
"""

import reasoning_gym

from seer import PromptItem, RolloutConfig, SamplingParams, SyncRollout
from seer.engines.local.default_model import default_model_dir
from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec


def main() -> None:
    """Print each question's best answer and the share of right ones."""
    tasks = reasoning_gym.create_dataset("chain_sum", seed=1, size=4, max_terms=2, max_digits=1)
    prompts = [
        PromptItem(
            prompt=[{"role": "user", "content": f"{entry['question']} End with the number."}],
            metadata={"entry": entry},
        )
        for entry in tasks
    ]
    spec = LocalSpec(model=str(default_model_dir(notify=print)))
    sampling = SamplingParams(temperature=0.8, max_tokens=48)
    with SyncRollout(RolloutConfig(engine=ProcessSpec(inner=spec))) as rollout:
        for group in rollout.stream(prompts, group_size=16, sampling=sampling):
            entry = group.metadata["entry"]
            texts = [completion.text for completion in group.completions]
            rewards = [tasks.score_answer(answer=last_number(text), entry=entry) for text in texts]
            best = texts[rewards.index(max(rewards))]
            right = sum(reward == 1.0 for reward in rewards)
            print(f"{right}/{len(texts)} right; best: {best!r} (answer {entry['answer']})")


def last_number(text: str) -> str:
    """The last word of a response that is a number."""
    words = [word.strip(".,:;!?*$") for word in text.split()]
    return next((word for word in reversed(words) if word.lstrip("-").isdigit()), "")


if __name__ == "__main__":
    main()
