"""Fakes and values for the tests of training."""

from concurrent.futures import Future

from seer.rollout.results import Completion, GroupResult
from seer.trainers.training.reward_messages import (
    NotAReward,
    Outcome,
    Raised,
    RewardCall,
    Scored,
)
from seer.trainers.training.samples import Sample
from seer.types import FinishReason

OUTCOMES: dict[str, Outcome] = {
    "right": Scored(reward=1.0, is_correct=True),
    "wrong": Scored(reward=0.0, is_correct=False),
    "raise": Raised(why="ValueError: no"),
    "nan": NotAReward(returned="nan"),
}


class FakePool:
    """Gives the outcome that a response's text names; keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[RewardCall] = []

    def submit(self, call: RewardCall) -> Future[Outcome]:
        self.calls.append(call)
        future: Future[Outcome] = Future()
        future.set_result(OUTCOMES[call.response])
        return future


def group(place: int, *texts: str) -> GroupResult:
    """A finished group; token ids are those of the tiny tokenizer."""
    return GroupResult(
        prompt_id=str(place),
        group_id=place,
        prompt_token_ids=[1],
        metadata={},
        completions=[
            Completion(
                member=member,
                output_token_ids=[ord(each) - 30 for each in text],
                text=text,
                logprobs=[0.0] * len(text),
                finish_reason=FinishReason.STOP,
                started_s=0.0,
                finished_s=1.0,
            )
            for member, text in enumerate(texts)
        ],
    )


def sample(task: str, reward: float, num_tokens: int, error: str | None = None) -> Sample:
    return Sample(
        step=1,
        item="i",
        task=task,
        member=0,
        prompt="p",
        response="r",
        num_tokens=num_tokens,
        finish_reason="stop",
        reward=reward,
        is_correct=None,
        error=error,
    )
