"""The self-test of an engine: sample in three ways, rescore with a reference, judge."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from seer.engines.fidelity.arms import MOVES, PLAIN, CheckPlan, sample_arm
from seer.engines.fidelity.report import CheckReport
from seer.engines.fidelity.response import Response, Sampled
from seer.engines.fidelity.scores import TokenScores
from seer.engines.fidelity.verdict import ALLOWANCES, Evidence, judge
from seer.rollout.engine import EngineSpec
from seer.rollout.prompts import PromptContent
from seer.types import SamplingParams

Tell = Callable[[str], None]
Score = Callable[[Sequence[Response], SamplingParams], TokenScores]
"""A reference; see `Reference.score`."""

PROMPTS = (
    "List the numbers from 1 to 30 with commas: 1, 2, 3, 4, 5, 6,",
    "The cat sat on the mat. The dog sat on the mat. The bird sat on the",
    "Once upon a time there was a king who had three daughters. The eldest",
    "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return",
)
"""Texts that a model goes on with in loops here and freely there: guesses come right and wrong."""


async def sample_all(
    specs: Mapping[str, EngineSpec],
    plan: CheckPlan,
    prompts: Sequence[PromptContent],
    tell: Tell,
) -> list[Sampled]:
    """Let each arm's engine generate. Raises what a rollout raises."""
    sampled = []
    for arm, spec in specs.items():
        tell(f"sampling, {arm}: {plan.num_seeds} seeds")
        sampled.append(await sample_arm(arm, spec, plan, prompts))
    return sampled


def judge_all(
    sampled: Sequence[Sampled], plan: CheckPlan, dtype: str, score: Score, false_alarm: float
) -> CheckReport:
    """Rescore what was sampled, and judge."""
    evidence = list(_evidence(sampled, plan, score))
    return judge(evidence, ALLOWANCES[dtype], false_alarm, plan.sampling.seed)


def _evidence(sampled: Sequence[Sampled], plan: CheckPlan, score: Score) -> Iterator[Evidence]:
    for each in sampled:
        yield Evidence(
            arm=each.arm,
            scores=score(each.responses, plan.sampling),
            reported=np.concatenate([response.logprobs for response in each.responses]),
            lengths=[len(response.token_ids) for response in each.responses],
            temperature=plan.sampling.temperature,
            num_seeds=plan.num_seeds,
            group_size=plan.group_size,
            chunk_size=plan.chunk_size if each.arm == MOVES else None,
            num_drafted=each.num_drafted,
            num_accepted=each.num_accepted,
            num_moves=each.num_moves,
            wants_drafts=each.arm != PLAIN,
            wants_moves=each.arm == MOVES,
        )
