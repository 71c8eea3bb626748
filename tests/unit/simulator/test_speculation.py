import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.simulator.speculation import (
    PAPER_TABLE_2,
    REFERENCE_DRAFT,
    Acceptance,
    Speculation,
    acceptance_length,
    solve_acceptance,
)


@pytest.mark.parametrize("paths", PAPER_TABLE_2)
@pytest.mark.parametrize("siblings", [0, 1, 5, 15])
def test_the_paper_s_table_is_met_at_its_own_points(paths: int, siblings: int) -> None:
    """Acceptance lengths with the table's number of draft positions."""
    probability = Acceptance().probability(paths, siblings)
    length = acceptance_length(probability, REFERENCE_DRAFT)
    assert length == pytest.approx(PAPER_TABLE_2[paths][siblings], abs=1e-6)


def test_more_finished_siblings_never_accept_less() -> None:
    """Between the table's points it is interpolated."""
    probabilities = [Acceptance().probability(1, n) for n in range(20)]
    assert probabilities == sorted(probabilities)
    assert probabilities[15] == probabilities[19]


def test_without_the_group_siblings_do_not_count() -> None:
    """Vanilla suffix drafting knows each request's own text alone."""
    vanilla = Acceptance(grouped=False)
    assert vanilla.probability(1, 15) == vanilla.probability(1, 0)


def test_acceptance_is_solved_from_a_length() -> None:
    """The inverse of the paper's formula."""
    assert acceptance_length(solve_acceptance(2.3, 8), 8) == pytest.approx(2.3)


def test_drafts_are_given_up_where_verified_tokens_are_dear() -> None:
    """And taken where a step costs the same however many tokens it verifies."""
    cheap = SurfaceStepTime(fixed_s=0.01)
    dear = SurfaceStepTime(fixed_s=0.001, per_token_s=0.01)
    assert Speculation(Acceptance(), cheap).plan({3: 4}, 100).positions == 8
    assert Speculation(Acceptance(), dear).plan({3: 4}, 100).positions == 0


@pytest.mark.parametrize("paths", [1, 4])
def test_lengths_of_one_number_of_paths_are_enough(paths: int) -> None:
    """Whichever it is; no drafts remain the other choice."""
    acceptance = Acceptance(lengths={paths: {0: 2.0}})
    cheap = SurfaceStepTime(fixed_s=0.01)
    dear = SurfaceStepTime(fixed_s=0.001, per_token_s=0.01)
    for step, positions in ((cheap, 8), (dear, 0)):
        speculation = Speculation(acceptance, step)
        plan = speculation.plan({3: 4}, 100)
        assert plan.positions == positions
        assert speculation.rate(plan, 3) >= 1
