"""The planner around a real tree: limits, plans and what is learnt."""

import numpy as np
import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.drafting.acceptance import AcceptanceSettings, AcceptanceStatistics
from seer.drafting.budget import Budget, FixedBudget, SeerBudget
from seer.drafting.planner import Planner, RunningRequest
from seer.drafting.suffix_tree import Drafts, DraftSettings, SuffixTree, speculate_batch
from seer.errors import InvalidInput
from seer.types import RequestId

STEP_TIME = SurfaceStepTime(fixed_s=1.0, per_token_s=0.25)


def _planner(budget: Budget) -> Planner:
    statistics = AcceptanceStatistics(AcceptanceSettings(decay=1.0))
    return Planner(budget, DraftSettings(min_probability=0.0), statistics)


def _requests(*left: int) -> list[RunningRequest]:
    return [
        RunningRequest(request_id=RequestId(0, member), num_tokens_left=tokens)
        for member, tokens in enumerate(left)
    ]


def _drafts(planner: Planner, requests: list[RunningRequest]) -> Drafts:
    """Every request stands where a sibling was."""
    tree = SuffixTree()
    tree.append(100, 0, list(range(50)))
    cursors = [tree.cursor(request.request_id.member) for request in requests]
    for request in requests:
        tree.append(request.request_id.member, 0, list(range(20)))
    return speculate_batch(cursors, planner.limits(requests), planner.settings(len(requests)))


def test_nothing_is_drafted_beyond_the_end() -> None:
    """A chain ends one before the last token, which the target gives itself."""
    planner = _planner(FixedBudget(4))
    assert planner.limits(_requests(1, 3, 100)).tolist() == [0, 2, 4]


def test_a_tree_may_be_wider_than_what_is_left() -> None:
    """Only the last token of all needs no draft."""
    planner = _planner(SeerBudget(step_time=STEP_TIME))
    assert planner.limits(_requests(1, 3)).tolist() == [0, 16]
    assert planner.settings(2).top_k == 4
    assert planner.settings(100).top_k == 1


def test_a_step_is_planned_from_drafts() -> None:
    """The plan fits the drafts, whoever allots."""
    requests = _requests(1, 9, 9)
    planner = _planner(FixedBudget(3))
    assert planner.plan(requests, _drafts(planner, requests), 60.0).tolist() == [0, 3, 3]


def test_rejections_turn_speculation_off() -> None:
    """What the tree thinks likely and the target refuses is soon not verified any more."""
    planner = _planner(SeerBudget(step_time=STEP_TIME))
    requests = _requests(50, 50)
    drafts = _drafts(planner, requests)
    before = planner.plan(requests, drafts, 40.0)
    assert before.min() > 0
    for _ in range(200):
        verified = np.diff(drafts.offsets).astype(np.int32)
        planner.observe(drafts, verified, np.zeros(len(drafts.token_ids), np.bool_))
    assert planner.plan(requests, drafts, 40.0).sum() < before.sum()


def test_bad_input_is_named() -> None:
    """Drafts of another batch, requests without tokens left, weights below 0."""
    planner = _planner(FixedBudget(3))
    with pytest.raises(InvalidInput, match="drafts"):
        planner.plan(_requests(5), _drafts(planner, _requests(5, 5)), 0.0)
    with pytest.raises(InvalidInput, match="num_tokens_left"):
        _requests(0)
    with pytest.raises(InvalidInput, match="weight"):
        RunningRequest(request_id=RequestId(0, 0), num_tokens_left=1, weight=-1.0)
