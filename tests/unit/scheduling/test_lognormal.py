import math
import random

import pytest

from seer.scheduling.lognormal import expected_beyond, hazard, quantile_beyond, survival


def _samples(mu: float, sigma: float, least: float) -> list[float]:
    rng = random.Random(0)
    lengths = (math.exp(mu + sigma * rng.gauss(0, 1)) for _ in range(200_000))
    return [length for length in lengths if length > least]


@pytest.mark.parametrize(("least", "most"), [(0, 1e9), (0, 500), (300, 1e9), (300, 900)])
def test_the_mean_beyond_agrees_with_samples(least: float, most: float) -> None:
    """With a lower bound, an upper one, both and neither."""
    lengths = [min(length, most) for length in _samples(5.5, 0.6, least)]
    mean = sum(lengths) / len(lengths)
    assert expected_beyond(5.5, 0.6, least, most) == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize("least", [0, 300])
def test_the_quantile_beyond_agrees_with_samples(least: float) -> None:
    """Nine of ten are shorter."""
    lengths = sorted(_samples(5.5, 0.6, least))
    expected = lengths[int(0.9 * len(lengths))]
    assert quantile_beyond(5.5, 0.6, least, 0.9) == pytest.approx(expected, rel=0.02)


def test_the_far_tail_stays_finite_and_in_order() -> None:
    """Where the survival underflows."""
    least = math.exp(3 + 0.1 * 40)
    assert least < expected_beyond(3, 0.1, least, 1e9) < 1.1 * least
    near, far = (quantile_beyond(3, 0.1, least, share) for share in (0.5, 0.99))
    assert least < near < far < 1.2 * least


def test_the_hazard_is_continuous_where_its_formula_changes() -> None:
    """At six standard deviations."""
    assert hazard(5.999) == pytest.approx(hazard(6.001), rel=1e-2)
    assert survival(0) == 0.5


def test_absurd_parameters_give_finite_lengths() -> None:
    """A prior that is wrong by orders of magnitude must not end a rollout."""
    for mu, sigma in ((2000.0, 1.0), (5.0, 900.0), (-2000.0, 0.1)):
        for least in (0.0, 1.0, 1e6):
            assert math.isfinite(quantile_beyond(mu, sigma, least, 0.999))
            assert 0 <= expected_beyond(mu, sigma, least, 1e7) <= 1e7
