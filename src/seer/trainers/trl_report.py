"""What one call of a trainer's rollout came to."""

from typing import Self

import msgspec

from seer.rollout.metrics import RolloutMetrics
from seer.trainers.on_policy import Difference


class IterationReport(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout of one trainer step."""

    global_step: int
    """Optimiser steps that the weights have seen."""
    is_training: bool
    """False: an evaluation."""
    weight_version: int
    """Version of the weights that every token came from; 1 for the first ones, then 2, 3, ..."""
    weight_update_s: float
    """Seconds to write the weights and to load them on all instances; 0: they had not changed."""
    rollout_s: float
    """Seconds from the prompts to the last response, `on_group` included."""
    check_s: float
    """Seconds of the trainer's forward pass for the comparison."""
    difference: Difference | None
    """Seer's log-probabilities against the trainer's own; None: nothing was compared."""
    output_tokens: int
    tail_s: float
    """Seconds from 90 % to 100 % of the responses finished."""
    preemptions: int
    drafted_tokens: int
    accepted_tokens: int
    instances_lost: int
    session: RolloutMetrics
    """All rollouts of the session so far."""

    @classmethod
    def of(
        cls,
        before: RolloutMetrics,
        after: RolloutMetrics,
        *,
        global_step: int,
        is_training: bool,
        weight_version: int,
        weight_update_s: float,
        rollout_s: float,
        check_s: float,
        difference: Difference | None,
    ) -> Self:
        """With the session's figures after the call less those before it."""
        return cls(
            global_step=global_step,
            is_training=is_training,
            weight_version=weight_version,
            weight_update_s=weight_update_s,
            rollout_s=rollout_s,
            check_s=check_s,
            difference=difference,
            output_tokens=after.output_tokens - before.output_tokens,
            tail_s=after.tail_time_s - before.tail_time_s,
            preemptions=after.preemptions - before.preemptions,
            drafted_tokens=after.drafted_tokens - before.drafted_tokens,
            accepted_tokens=after.accepted_tokens - before.accepted_tokens,
            instances_lost=after.instances_lost - before.instances_lost,
            session=after,
        )

    def as_log(self) -> dict[str, float]:
        """Names and values for a trainer's log."""
        values = {
            "seer/weight_version": float(self.weight_version),
            "seer/weight_update_s": self.weight_update_s,
            "seer/rollout_s": self.rollout_s,
            "seer/tail_s": self.tail_s,
            "seer/check_s": self.check_s,
            "seer/tokens_per_s": self.output_tokens / self.rollout_s if self.rollout_s else 0.0,
        }
        if self.difference is not None:
            values["seer/logprob_difference/max"] = self.difference.largest
            values["seer/logprob_difference/mean"] = self.difference.mean
            if self.difference.exact is not None:
                values["seer/logprob_difference/max_float64"] = self.difference.exact.largest
        return values
