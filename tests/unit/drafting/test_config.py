"""Drafting as configuration."""

import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.drafting.budget import FixedBudget, MarginalBenefit, SeerBudget
from seer.drafting.config import DraftingConfig, make_budget
from seer.errors import InvalidInput

STEP_TIME = SurfaceStepTime(fixed_s=0.01)


@pytest.mark.parametrize(
    "budget", ["", "fixed", "fixed:", "fixed:0", "fixed:33", "fixed:-1", "fixed:²", "4", "Seer"]
)
def test_bad_budgets_are_refused(budget: str) -> None:
    """What is no drafting is refused, and what is allowed is named."""
    with pytest.raises(InvalidInput, match=r"drafting: got .*allowed: off, marginal, seer"):
        DraftingConfig(budget=budget)


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_periods_are_refused(period: float) -> None:
    """The exchange with the server needs a period."""
    with pytest.raises(InvalidInput, match="fetch_period_s"):
        DraftingConfig(fetch_period_s=period)


def test_budgets_by_name() -> None:
    """Each name has its budget; those that weigh time get the step time."""
    assert make_budget("fixed:4", None) == FixedBudget(4)
    assert make_budget("marginal", STEP_TIME) == MarginalBenefit(step_time=STEP_TIME)
    assert make_budget("seer", STEP_TIME) == SeerBudget(step_time=STEP_TIME)


def test_step_time_is_needed_by_budgets_that_weigh_it() -> None:
    """Not by a fixed number, nor where it is given."""
    assert DraftingConfig(budget="seer").needs_step_time
    assert DraftingConfig(budget="marginal").needs_step_time
    assert not DraftingConfig(budget="seer", step_time=STEP_TIME).needs_step_time
    assert not DraftingConfig(budget="fixed:2").needs_step_time
    assert not DraftingConfig().is_on
