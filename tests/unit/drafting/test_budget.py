"""Budgets on batches small enough to reckon by hand."""

import numpy as np
import pytest

from seer.costmodel.step_time import Bend, DraftCost, SurfaceStepTime
from seer.drafting.budget import (
    Budget,
    DraftBatch,
    DraftBudget,
    FixedBudget,
    MarginalBenefit,
    SeerBudget,
)
from seer.errors import InvalidInput

FREE = SurfaceStepTime(fixed_s=1.0)
"""A step takes as long whatever it verifies."""
DEAR = SurfaceStepTime(fixed_s=0.0, per_token_s=1.0)
"""A step takes as long as it has tokens."""


def _batch(
    probabilities: list[list[float]],
    *,
    probes: tuple[int, ...] = (),
    weights: list[float] | None = None,
    acceptance: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35),
) -> DraftBatch:
    size = len(probabilities)
    return DraftBatch(
        is_probe=np.isin(np.arange(size), probes),
        weights=np.array(weights or [1.0] * size),
        probabilities=np.array([p for each in probabilities for p in each]),
        offsets=np.cumsum([0, *map(len, probabilities)]).astype(np.int32),
        acceptance=np.array(acceptance),
        context_tokens=0.0,
    )


def test_fixed() -> None:
    """The number, but no more than was drafted."""
    batch = _batch([[0.9] * 3, [0.9], []])
    assert FixedBudget(2).allot(batch).tolist() == [2, 1, 0]
    assert FixedBudget(8).allot(batch).tolist() == [3, 1, 0]
    assert FixedBudget(0).allot(batch).tolist() == [0, 0, 0]


def test_seer_takes_the_likeliest_nodes_while_they_pay() -> None:
    """One node more pays while its probability is above tokens a second times its time."""
    # 12 s for 2 tokens; then a second each for 0.9, 0.8, 0.3, 0.2 more.
    step_time = SurfaceStepTime(fixed_s=10.0, per_token_s=1.0)
    batch = _batch([[0.9, 0.2], [0.8, 0.3]])
    allotted = SeerBudget(step_time=step_time, probe_weight=1.0).allot(batch)
    rates = {n: (2 + sum([0.9, 0.8, 0.3, 0.2][:n])) / (12 + n) for n in range(5)}
    assert max(rates, key=rates.__getitem__) == 3
    assert allotted.tolist() == [1, 2]
    dearer = SurfaceStepTime(fixed_s=2.0, per_token_s=1.0)
    assert SeerBudget(step_time=dearer).allot(batch).tolist() == [1, 1]


def test_seer_is_off_when_nothing_pays() -> None:
    """Where a token costs what it costs alone, an unsure one is never worth it."""
    batch = _batch([[0.9, 0.8], [0.7]], probes=())
    assert SeerBudget(step_time=DEAR).allot(batch).tolist() == [0, 0]


def test_seer_asks_for_a_least_gain() -> None:
    """Half a token more for 0.47 of a step's time gains 2 %, for 0.44 it gains 4 %."""
    batch = _batch([[0.5]], probes=())
    for slope, nodes in ((0.47, [0]), (0.44, [1])):
        step_time = SurfaceStepTime(fixed_s=1.0 - slope, per_token_s=slope)
        assert SeerBudget(step_time=step_time).allot(batch).tolist() == nodes
        assert SeerBudget(step_time=step_time, min_gain=0.0).allot(batch).tolist() == [1]


def test_seer_looks_beyond_a_first_step_up() -> None:
    """Verifying more than one row costs a lot at once, eight cost no more than two."""
    step_time = SurfaceStepTime(
        fixed_s=1.0,
        bends=(Bend(above_tokens=1, per_token_s=2.0), Bend(above_tokens=2, per_token_s=0)),
    )
    batch = _batch([[0.99] * 8])
    assert SeerBudget(step_time=step_time).allot(batch).tolist() == [8]


def test_seer_puts_probes_and_heavy_requests_first() -> None:
    """Of equal drafts the one with more weight is verified."""
    step_time = SurfaceStepTime(
        fixed_s=10.0, bends=(Bend(above_tokens=4, per_token_s=1e3),)
    )  # room for two nodes
    equal = [[0.8, 0.6], [0.8, 0.6]]
    budget = SeerBudget(step_time=step_time, probe_weight=2.0)
    assert budget.allot(_batch(equal)).tolist() == [1, 1]
    assert budget.allot(_batch(equal, probes=(1,))).tolist() == [0, 2]
    assert budget.allot(_batch(equal, weights=[3.0, 1.0])).tolist() == [2, 0]


def test_several_paths_when_the_batch_is_small() -> None:
    """Few requests draft trees, many draft chains."""
    budget = SeerBudget(step_time=FREE)
    assert (budget.top_k(8), budget.max_nodes(8)) == (4, 32)
    assert (budget.top_k(32), budget.max_nodes(32)) == (4, 8)
    assert (budget.top_k(33), budget.max_nodes(33)) == (1, 8)


def test_trees_shrink_as_the_batch_grows() -> None:
    """The nodes of a batch are shared, within a request's most and least."""
    budget = SeerBudget(step_time=FREE)
    assert [budget.max_nodes(size) for size in (0, 1, 10, 16, 20)] == [32, 32, 25, 16, 12]


def test_algorithm_1_step_by_step() -> None:
    """Free steps: gamma* is gamma_max for all; the budget is spent as the pseudocode says."""
    beta = np.array([1.0, 0.9, 0.5, 0.45, 0.4])
    policy = MarginalBenefit(step_time=FREE, max_positions=3)
    # 12 tokens; probe 1 (2 left of them), then benefits 0.8 and 0.2·2 a round ...
    assert policy.best_positions(4, beta, 0.0) == 3
    # Probes: 2·0.4 = 0.8 > 2·(2·0.1) = 0.4 -> 2. Then 0.1 against 0.4: the others get 3, then stop.
    assert policy.draft_budget(2, 2, beta, 0.0) == DraftBudget(probe=2, rest=3)


def test_algorithm_1_leaves_what_fits_nobody() -> None:
    """The others are at their limit, and the probes' benefit is too small: the rest is unused."""
    beta = np.array([1.0, 0.9, 0.89, 0.88, 0.4])
    policy = MarginalBenefit(step_time=FREE, max_positions=3)
    assert policy.draft_budget(1, 1, beta, 0.0) == DraftBudget(probe=1, rest=3)


def test_algorithm_1_judges_a_length_by_its_own_positions() -> None:
    """What only the deepest positions promise does not speak for the first one."""
    # 1 s for 1 token; 1.5 s for 1.4 with one position; 2 s for 1.8 with eight nearly sure after it.
    beta = np.array([1.0, 0.4, *[0.4] * 7])
    step_time = SurfaceStepTime(fixed_s=0.5, per_token_s=0.5)
    policy = MarginalBenefit(step_time=step_time)
    assert policy.best_positions(1, beta, 0.0) == 0


def test_algorithm_1_turns_off() -> None:
    """Where each verified token costs as much as a step's own, no draft is made."""
    policy = MarginalBenefit(step_time=DEAR)
    assert policy.draft_budget(2, 6, np.array([1.0, 0.7, 0.5]), 0.0) == DraftBudget(probe=0, rest=0)
    assert policy.allot(_batch([[0.9], [0.9]], probes=(0,))).tolist() == [0, 0]


def test_algorithm_1_counts_the_time_of_drafting() -> None:
    """A free target and a dear drafter: nothing is drafted."""
    step_time = SurfaceStepTime(fixed_s=1.0, draft=DraftCost(per_token_s=10.0))
    assert MarginalBenefit(step_time=step_time).best_positions(4, np.array([1.0, 0.9]), 0.0) == 0


def test_algorithm_1_without_probes_is_uniform() -> None:
    """All of the budget goes to the others."""
    policy = MarginalBenefit(step_time=FREE, max_positions=3)
    drafts = [[0.9] * 8, [0.9] * 2]
    assert policy.allot(_batch(drafts)).tolist() == [3, 2]


@pytest.mark.parametrize(
    "budget", [FixedBudget(4), MarginalBenefit(step_time=FREE), SeerBudget(step_time=FREE)]
)
def test_an_empty_batch_has_an_empty_budget(budget: Budget) -> None:
    """No requests, no nodes."""
    assert budget.allot(_batch([])).tolist() == []


def test_bad_values_are_named() -> None:
    """Negative budgets, weights and priorities."""
    with pytest.raises(InvalidInput, match="num_nodes"):
        FixedBudget(-1)
    with pytest.raises(InvalidInput, match="max_positions"):
        MarginalBenefit(step_time=FREE, max_positions=-1)
    with pytest.raises(InvalidInput, match="priority"):
        MarginalBenefit(step_time=FREE, priority=0.5)
    with pytest.raises(InvalidInput, match="max_nodes_tree"):
        SeerBudget(step_time=FREE, max_nodes_tree=-1)
    with pytest.raises(InvalidInput, match="max_nodes_batch"):
        SeerBudget(step_time=FREE, max_nodes_batch=-1)
    with pytest.raises(InvalidInput, match="min_gain"):
        SeerBudget(step_time=FREE, min_gain=float("nan"))
    with pytest.raises(InvalidInput, match="tree_top_k"):
        SeerBudget(step_time=FREE, tree_top_k=0)
    with pytest.raises(InvalidInput, match="probe_weight"):
        SeerBudget(step_time=FREE, probe_weight=0.0)
