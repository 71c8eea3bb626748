"""Rewards of one rollout: asked for group by group while others roll out, collected at the end."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from seer.errors import InvalidInput
from seer.rollout.results import Completion, GroupResult
from seer.trainers.training.items import Item
from seer.trainers.training.reward_messages import NotAReward, Outcome, Raised, RewardCall, Scored
from seer.trainers.training.samples import Sample


class SubmitsCalls(Protocol):
    """What scores responses: RewardPool, or a fake."""

    def submit(self, call: RewardCall) -> Future[Outcome]:
        """Begin to score one response."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A response whose reward is being computed."""

    completion: Completion
    outcome: Future[Outcome]


class RewardBook:
    """The rewards of one rollout at a time."""

    def __init__(
        self, pool: SubmitsCalls, *, reward_on_error: float, by_verifier: bool = False
    ) -> None:
        self._pool = pool
        self._reward_on_error = reward_on_error
        self._by_verifier = by_verifier
        self._step = 0
        self._items: tuple[Item, ...] = ()
        self._groups: dict[int, list[_Pending]] = {}

    def open(self, step: int, items: Sequence[Item]) -> None:
        """Expect one group for each item, in any order; what was pending is forgotten."""
        self._step = step
        self._items = tuple(items)
        self._groups = {}

    def add(self, place: int, group: GroupResult) -> None:
        """A group is finished: start its rewards. `place` is that of its item."""
        item = self._items[place]
        self._groups[place] = [
            _Pending(completion, self._pool.submit(self._call(item, completion)))
            for completion in group.completions
        ]

    def collect(self) -> list[Sample]:
        """All responses with their rewards, by item and member; waits for those not there yet.

        Raises InvalidInput, naming the sample, when a call returned no finite number.
        """
        return [
            self._sample(item, pending)
            for place, item in enumerate(self._items)
            for pending in self._groups[place]
        ]

    def _call(self, item: Item, completion: Completion) -> RewardCall:
        return RewardCall(
            data_set=item.data_set,
            index=item.index,
            prompt=item.question + item.suffix,
            response=completion.text,
            by_verifier=self._by_verifier,
        )

    def _sample(self, item: Item, pending: _Pending) -> Sample:
        outcome = pending.outcome.result()
        completion = pending.completion
        match outcome:
            case Scored():
                reward, is_correct, error = outcome.reward, outcome.is_correct, None
            case Raised():
                reward, is_correct, error = self._reward_on_error, None, outcome.why
            case NotAReward():
                raise self._refusal(item, completion, outcome)
        return Sample(
            step=self._step,
            item=item.item_id,
            task=item.task,
            member=completion.member,
            prompt=item.question + item.suffix,
            response=completion.text,
            num_tokens=len(completion.output_token_ids),
            finish_reason=completion.finish_reason,
            reward=reward,
            is_correct=is_correct,
            error=error,
        )

    def _refusal(self, item: Item, completion: Completion, outcome: NotAReward) -> InvalidInput:
        sample = f"item {item.item_id}, response {completion.member} of step {self._step}"
        allowed = f"allowed: a finite number; returned for {sample}: {completion.text!r}"
        return InvalidInput("reward", outcome.returned, allowed)
