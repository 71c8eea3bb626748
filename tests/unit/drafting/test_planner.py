"""The planner around a real tree: limits, plans and what is learnt."""

import numpy as np
import pytest
from numpy.typing import NDArray

from seer.costmodel.step_time import SurfaceStepTime
from seer.drafting.acceptance import AcceptanceSettings, AcceptanceStatistics
from seer.drafting.budget import Budget, FixedBudget, SeerBudget
from seer.drafting.planner import Planner, RunningBatch
from seer.drafting.suffix_tree import Drafts, DraftSettings, SuffixTree, speculate_batch
from seer.errors import InvalidInput

STEP_TIME = SurfaceStepTime(fixed_s=1.0, per_token_s=0.25)


def _planner(budget: Budget) -> Planner:
    statistics = AcceptanceStatistics(AcceptanceSettings(decay=1.0))
    return Planner(budget, DraftSettings(min_probability=0.0), statistics)


def _batch(*left: int) -> RunningBatch:
    return RunningBatch(
        num_tokens_left=np.array(left, np.int32),
        is_probe=np.zeros(len(left), np.bool_),
        weights=np.ones(len(left)),
    )


def _drafts(planner: Planner, limits: NDArray[np.int32]) -> Drafts:
    """Every request stands where a sibling was."""
    tree = SuffixTree()
    tree.append(100, 0, list(range(50)))
    cursors = [tree.cursor(member) for member in range(len(limits))]
    for member in range(len(limits)):
        tree.append(member, 0, list(range(20)))
    return speculate_batch(cursors, limits, planner.settings(len(limits)))


def test_nothing_is_drafted_beyond_the_end() -> None:
    """A chain ends one before the last token, which the target gives itself."""
    planner = _planner(FixedBudget(4))
    assert planner.limits(_batch(1, 3, 100)).tolist() == [0, 2, 4]


def test_a_tree_may_be_wider_than_what_is_left() -> None:
    """Only the last token of all needs no draft."""
    planner = _planner(SeerBudget(step_time=STEP_TIME))
    assert planner.limits(_batch(1, 3)).tolist() == [0, 32]
    assert planner.settings(2).top_k == 4
    assert planner.settings(100).top_k == 1


def test_a_step_is_planned_from_drafts() -> None:
    """The plan fits the drafts, whoever allots."""
    batch = _batch(1, 9, 9)
    planner = _planner(FixedBudget(3))
    assert planner.plan(batch, _drafts(planner, planner.limits(batch)), 60.0).tolist() == [0, 3, 3]


def _steps(planner: Planner, token: int, num_steps: int) -> list[tuple[int, int]]:
    """Drafted and verified nodes of steps in which both requests go on with `token`."""
    batch = _batch(50, 50)
    drafts = _drafts(planner, np.full(2, 8, np.int32))
    made = []
    for _ in range(num_steps):
        num_verified = num_drafted = 0
        if planner.limits(batch).any():
            verified = planner.plan(batch, drafts, 40.0)
            planner.observe(drafts, verified, [[token], [token]])
            num_drafted, num_verified = len(drafts.token_ids), int(verified.sum())
        made.append((num_drafted, num_verified))
    return made


WRONG, RIGHT = 77, 20


def test_rejections_turn_speculation_off_and_right_guesses_on() -> None:
    """What the target refuses is soon not verified any more; unverified it goes on being judged."""
    planner = _planner(SeerBudget(step_time=STEP_TIME))
    refused = _steps(planner, WRONG, 400)
    assert refused[0][1] > 0
    assert sum(verified for _, verified in refused[-100:]) == 0
    assert _steps(planner, RIGHT, 2000)[-1][1] > 0


def test_a_planner_rests_while_nothing_is_verified() -> None:
    """One step in four has drafts then; every step has, while they pay."""
    planner = _planner(FixedBudget(0))
    assert sum(drafted > 0 for drafted, _ in _steps(planner, RIGHT, 100)) == 0
    planner = _planner(SeerBudget(step_time=STEP_TIME))
    assert all(drafted > 0 for drafted, _ in _steps(planner, RIGHT, 100))
    last = [drafted > 0 for drafted, _ in _steps(planner, WRONG, 400)][-100:]
    assert sum(last) == 25


def test_bad_input_is_named() -> None:
    """Drafts of another batch, requests without tokens left, weights below 0, other shapes."""
    planner = _planner(FixedBudget(3))
    with pytest.raises(InvalidInput, match="drafts"):
        planner.plan(_batch(5), _drafts(planner, np.full(2, 3, np.int32)), 0.0)
    with pytest.raises(InvalidInput, match="num_tokens_left"):
        _batch(0)
    ones, yes = np.ones(2, np.int32), np.ones(2, np.bool_)
    for weights in (np.array([1.0, -1.0]), np.array([1.0, np.inf]), np.ones(3)):
        with pytest.raises(InvalidInput, match="weights"):
            RunningBatch(num_tokens_left=ones, is_probe=yes, weights=weights)
