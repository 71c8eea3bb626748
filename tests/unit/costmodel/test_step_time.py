"""The fitted form of the step time."""

import pytest

from seer.costmodel.step_time import Bend, DraftCost, StepTime, SurfaceStepTime
from seer.errors import InvalidInput

SURFACE = SurfaceStepTime(
    fixed_s=5.0,
    per_request_s=0.5,
    per_token_s=1.0,
    bends=(Bend(above_tokens=4, per_token_s=2.0), Bend(above_tokens=10, per_token_s=0.0)),
    per_context_token_s=0.01,
    per_attended_token_s=0.001,
    prefill_per_token_s=0.1,
    prefill_per_attended_token_s=0.01,
)


def test_it_is_a_step_time() -> None:
    """The surface keeps the protocol that the simulator asks."""
    step_time: StepTime = SURFACE
    assert step_time.step_s(0, 0, 0) == 5.0


def test_terms_add_up() -> None:
    """Fixed, requests, tokens by segment, context read and context attended."""
    assert SURFACE.step_s(2, 6, 100) == pytest.approx(5 + 1 + (4 + 2 * 2) + 100 * (0.01 + 0.003))


@pytest.mark.parametrize(
    ("tokens", "seconds"), [(0, 0), (3, 3), (4, 4), (5, 6), (10, 16), (99, 16)]
)
def test_tokens_cost_by_segment(tokens: float, seconds: float) -> None:
    """The slope changes at each bend, the value does not jump."""
    assert SURFACE.rows_s(tokens) == pytest.approx(seconds)


def test_a_step_is_linear_in_context() -> None:
    """So a run of steps costs what their mean context does."""
    steps = [SURFACE.step_s(3, 6, context) for context in range(100, 200, 3)]
    assert sum(steps) == pytest.approx(len(steps) * SURFACE.step_s(3, 6, (100 + 199) / 2))


def test_a_prefill_in_parts_costs_the_whole() -> None:
    """Chunked prefill attends to the same pairs."""
    parts = SURFACE.prefill_s(30, 0) + SURFACE.prefill_s(70, 30)
    assert parts == pytest.approx(SURFACE.prefill_s(100, 0))


def test_drafting_costs_nothing_without_drafts() -> None:
    """No draft token, no draft time; else each of its parts counts."""
    cost = DraftCost(fixed_s=1, per_request_s=0.1, per_position_s=10, per_token_s=0.01)
    assert cost.seconds(4, 0) == 0
    assert cost.seconds(4, 8) == pytest.approx(1 + 0.4 + 20 + 0.08)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_coefficients_are_finite_and_not_negative(value: float) -> None:
    """A bad coefficient is named."""
    with pytest.raises(InvalidInput, match="per_context_token_s"):
        SurfaceStepTime(fixed_s=1.0, per_context_token_s=value)


def test_bends_ascend() -> None:
    """Bends out of order are refused."""
    bends = (Bend(above_tokens=8, per_token_s=1), Bend(above_tokens=4, per_token_s=1))
    with pytest.raises(InvalidInput, match="bends"):
        SurfaceStepTime(fixed_s=1.0, bends=bends)
