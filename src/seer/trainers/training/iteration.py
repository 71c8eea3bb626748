"""Where the time of an iteration goes: the split of the paper's Table 1, and the waits."""

from collections.abc import Callable

import msgspec


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one iteration: one rollout and one optimiser step.

    Evaluation and checkpoints are not part of it.
    """

    total_s: float
    rollout_s: float
    """From the first request to the last finished group."""
    reward_wait_s: float
    """Waiting for rewards after the last group; what was computed during the rollout is hidden."""
    train_s: float
    """Forward and backward passes and the optimiser's step."""
    weight_update_s: float
    """Handing the new weights to the instances."""
    check_s: float
    """The trainer's forward pass to compare log-probabilities."""

    @property
    def other_s(self) -> float:
        """The rest: reading items, writing files."""
        known = self.rollout_s + self.reward_wait_s + self.train_s
        return self.total_s - known - self.weight_update_s - self.check_s


class IterationClock:
    """Takes the times of one iteration after the other."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives seconds, from any origin."""
        self._now = now
        self._started_s = 0.0
        self._scored_s = 0.0
        self._rollout_s = 0.0
        self._update_s = 0.0
        self._check_s = 0.0
        self._reward_wait_s = 0.0

    def start(self) -> None:
        """An iteration begins."""
        self._started_s = self._now()

    def rolled_out(self, *, rollout_s: float, weight_update_s: float, check_s: float) -> None:
        """The rollout is over; its parts as the rollout measured them."""
        self._rollout_s = rollout_s
        self._update_s = weight_update_s
        self._check_s = check_s

    def scored(self, *, reward_wait_s: float) -> None:
        """All rewards are there; training begins."""
        self._reward_wait_s = reward_wait_s
        self._scored_s = self._now()

    def finish(self) -> Split:
        """The optimiser's step is done."""
        now = self._now()
        return Split(
            total_s=now - self._started_s,
            rollout_s=self._rollout_s,
            reward_wait_s=self._reward_wait_s,
            train_s=now - self._scored_s,
            weight_update_s=self._update_s,
            check_s=self._check_s,
        )
