"""The on-policy check of one rollout for TRL's trainer."""

import itertools
import math
from collections.abc import Sequence

import msgspec

from seer.engines.local.spec import LocalSpec
from seer.errors import InvalidInput
from seer.rollout.results import GroupResult
from seer.trainers.on_policy import (
    FLOAT32_TOLERANCE,
    Difference,
    OnPolicyCheck,
    compare,
    enforce,
    rows_beyond,
    rows_to_check,
)
from seer.trainers.trainer_forward import TrainerForward, uses_float32
from seer.trainers.trl_trainer import Trainer
from seer.types import SamplingParams


def logprob_temperature(engine: LocalSpec | None, sampling: SamplingParams) -> float | None:
    """The temperature of the engine's log-probabilities; None: they are those after filters.

    `raw` ones are at temperature 1 whatever the sampling. Engines other than the local one are
    taken to report `processed` ones.
    """
    if engine is not None and engine.logprobs == "raw":
        return 1.0
    is_filtered = sampling.top_p < 1 or sampling.top_k > 0 or sampling.min_p > 0
    return None if is_filtered else sampling.temperature


def check_comparable(check: OnPolicyCheck, temperature: float | None) -> None:
    """Raise InvalidInput when the log-probabilities are of another distribution than TRL's.

    The trainer computes without filters. With them, processed log-probabilities differ by the mass
    that was cut, and which token is the last one kept may hang on rounding.
    """
    if check.share and temperature is None:
        allowed = 'allowed: off with processed log-probabilities; set logprobs="raw", or share=0'
        raise InvalidInput("top_p, top_k, min_p", "a filter", allowed)


def check_on_policy(
    check: OnPolicyCheck,
    engine: LocalSpec | None,
    trainer: Trainer,
    groups: Sequence[GroupResult],
    temperature: float,
) -> Difference:
    """Compare a share of the rows, others at each step. Raises OffPolicy beyond the tolerance."""
    size = len(groups[0].completions)
    chosen = rows_to_check(size * len(groups), check.share, trainer.state.global_step)
    ours = {row: groups[row // size].completions[row % size].logprobs for row in chosen}
    forward = TrainerForward.of(trainer, temperature)
    theirs = _trainer_logprobs(forward, groups, chosen)
    difference = compare(ours, theirs)
    limit = _tolerance(check, engine, trainer)
    if check.tolerance is None and difference.largest > limit:
        beyond = rows_beyond(ours, theirs, limit)
        exact = _trainer_logprobs(forward.in_float64(), groups, beyond)
        difference = msgspec.structs.replace(
            difference, exact=compare({row: ours[row] for row in beyond}, exact)
        )
    enforce(difference, limit)
    return difference


def _trainer_logprobs(
    forward: TrainerForward, groups: Sequence[GroupResult], rows: Sequence[int]
) -> dict[int, Sequence[float]]:
    """The trainer's log-probabilities of rows of the batch, a forward pass for each group's."""
    size = len(groups[0].completions)
    logprobs: dict[int, Sequence[float]] = {}
    for place, of_group in itertools.groupby(rows, key=lambda row: row // size):
        its_rows = list(of_group)
        tokens = [groups[place].completions[row % size].output_token_ids for row in its_rows]
        found = forward.logprobs(groups[place].prompt_token_ids, tokens)
        logprobs.update(zip(its_rows, found, strict=True))
    return logprobs


def _tolerance(check: OnPolicyCheck, engine: LocalSpec | None, trainer: Trainer) -> float:
    if check.tolerance is not None:
        return check.tolerance
    is_float32 = engine is not None and engine.dtype == "float32" and uses_float32(trainer)
    return FLOAT32_TOLERANCE if is_float32 else math.inf
