import math
import random

import pytest

from seer.scheduling.conditional_lengths import ConditionalEstimator
from seer.types import GroupSpec, RequestId

LIMIT = 10_000


def _group(group_id: int, size: int = 8, prior: float | None = None) -> GroupSpec:
    return GroupSpec(
        group_id=group_id,
        group_size=size,
        num_prompt_tokens=10,
        max_tokens=LIMIT,
        prior_tokens=prior,
    )


def _taught(
    sigma_between: float, sigma_within: float, num_groups: int = 60
) -> ConditionalEstimator:
    """An estimator that has seen groups come to their end."""
    rng = random.Random(1)
    estimator = ConditionalEstimator()
    for group in range(num_groups):
        estimator.add_group(_group(group))
    for group in range(num_groups):
        level = 6.5 + sigma_between * rng.gauss(0, 1)
        for member in range(8):
            length = min(LIMIT, max(1, round(math.exp(level + sigma_within * rng.gauss(0, 1)))))
            estimator.finished(RequestId(group, member), length)
        estimator.remove_group(group)
    return estimator


def test_the_spread_of_lengths_is_learned_from_other_groups() -> None:
    """Within and between groups, within a fifth."""
    estimator = _taught(0.8, 0.3)
    assert estimator.sigma_within == pytest.approx(0.3, rel=0.2)
    assert estimator.sigma_between == pytest.approx(0.8, rel=0.25)


def test_finished_siblings_pull_the_estimate_towards_them() -> None:
    """The more of them, the closer."""
    estimator = _taught(0.8, 0.3)
    estimator.add_group(_group(100))
    errors = []
    for member in range(4):
        errors.append(abs(math.log(estimator.estimate(RequestId(100, 7)) / 3000)))
        estimator.finished(RequestId(100, member), 3000)
    assert errors[0] > errors[1] > max(errors[2:])
    assert errors[-1] < 0.2


def test_a_running_request_is_expected_to_be_longer_than_it_is() -> None:
    """And its siblings with it: that none has ended says that the group is long."""
    estimator = _taught(0.8, 0.3)
    estimator.add_group(_group(100))
    before = estimator.estimate(RequestId(100, 1))
    for tokens in (500, 2000, 6000):
        estimator.progressed(RequestId(100, 0), tokens)
        assert estimator.estimate(RequestId(100, 0)) > tokens
    assert estimator.estimate(RequestId(100, 1)) > 1.5 * before


def test_estimates_stay_within_the_limit_and_above_what_is_there() -> None:
    """Even far beyond anything seen."""
    estimator = _taught(0.2, 0.1)
    estimator.add_group(_group(100))
    for tokens in (1, 5000, LIMIT - 1, LIMIT):
        estimator.progressed(RequestId(100, 0), tokens)
        assert tokens <= estimator.estimate(RequestId(100, 0)) <= LIMIT
        assert tokens <= estimator.quantile(RequestId(100, 0), 0.9) <= LIMIT


def test_quantiles_grow_with_their_share() -> None:
    """And lie on both sides of the mean."""
    estimator = _taught(0.8, 0.3)
    estimator.add_group(_group(100))
    request = RequestId(100, 0)
    shares = [estimator.quantile(request, share) for share in (0.1, 0.5, 0.9, 0.99)]
    assert shares == sorted(shares)
    assert shares[0] < estimator.estimate(request) < shares[-1]


def test_an_earlier_iteration_of_the_prompt_counts_as_evidence() -> None:
    """Before any member has run."""
    estimator = _taught(0.8, 0.3)
    estimator.add_group(_group(100, prior=4000))
    estimator.add_group(_group(101, prior=200))
    estimator.add_group(_group(102))
    long, short, unknown = (estimator.estimate(RequestId(g, 0)) for g in (100, 101, 102))
    assert short < unknown < long


def test_responses_that_the_limit_cut_do_not_shorten_the_estimate() -> None:
    """They are known only to be longer."""
    estimator = _taught(0.8, 0.3)
    expected = []
    for num_cut in range(3):
        group = 100 + num_cut
        estimator.add_group(_group(group))
        for member in range(num_cut):
            estimator.finished(RequestId(group, member), LIMIT)
        expected.append(estimator.estimate(RequestId(group, 7)))
    assert expected == sorted(expected)
    assert expected[0] < expected[1]


def test_a_runaway_is_expected_to_reach_the_limit_and_its_siblings_are_not() -> None:
    """One member that repeats itself says nothing of the others, nor of other groups."""
    estimator = _taught(0.5, 0.2)
    sigma = estimator.sigma_within
    estimator.add_group(_group(100))
    for member in range(5):
        estimator.finished(RequestId(100, member), 500 + member)
    sibling, runaway = RequestId(100, 5), RequestId(100, 6)
    before = estimator.estimate(sibling)
    estimator.progressed(runaway, 2000)
    assert estimator.quantile(runaway, 0.8) == LIMIT
    assert estimator.estimate(sibling) < 1.1 * before
    estimator.finished(runaway, LIMIT)
    assert estimator.estimate(sibling) < 1.1 * before
    for group in range(200, 260):  # until the next fit
        estimator.add_group(_group(group))
        estimator.finished(RequestId(group, 0), 600)
        estimator.remove_group(group)
    assert estimator.sigma_within < 1.1 * sigma
