"""The on-policy check of one rollout for TRL's trainer."""

import math
from collections.abc import Sequence

from seer.engines.local.spec import LocalSpec
from seer.errors import InvalidInput
from seer.rollout.results import GroupResult
from seer.trainers.on_policy import (
    FLOAT32_TOLERANCE,
    Difference,
    OnPolicyCheck,
    compare,
    enforce,
    rows_to_check,
)
from seer.trainers.trainer_forward import trainer_logprobs, uses_float32
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
    ours: dict[int, Sequence[float]] = {}
    theirs: dict[int, Sequence[float]] = {}
    for place, group in enumerate(groups):
        rows = [row for row in chosen if row // size == place]
        if not rows:
            continue
        completions = [group.completions[row % size] for row in rows]
        tokens = [completion.output_token_ids for completion in completions]
        forward = trainer_logprobs(trainer, group.prompt_token_ids, tokens, temperature)
        ours.update((r, c.logprobs) for r, c in zip(rows, completions, strict=True))
        theirs.update(zip(rows, forward, strict=True))
    difference = compare(ours, theirs)
    enforce(difference, _tolerance(check, engine, trainer))
    return difference


def _tolerance(check: OnPolicyCheck, engine: LocalSpec | None, trainer: Trainer) -> float:
    if check.tolerance is not None:
        return check.tolerance
    is_float32 = engine is not None and engine.dtype == "float32" and uses_float32(trainer)
    return FLOAT32_TOLERANCE if is_float32 else math.inf
