"""A right sampler passes at the stated rate; samplers that are slightly wrong do not pass."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from seer.engines.fidelity.scores import TokenScores, score_tokens
from seer.engines.fidelity.statistics import (
    chi_square_p_value,
    independence_p_value,
    ranks_p_value,
    sharpness,
    uniform_ranks,
    uniformity_p_value,
)
from seer.types import SamplingParams

Floats = NDArray[np.float64]
Sampler = Callable[[NDArray[np.float32], np.random.Generator], NDArray[np.int64]]

VOCAB = 40
TOKENS = 12_000
SAMPLING = SamplingParams(temperature=0.8)


def make_logits(rng: np.random.Generator, count: int = TOKENS) -> NDArray[np.float32]:
    """Some places are all but certain, others open, as a language model's are."""
    return (rng.normal(size=(count, VOCAB)) * rng.gamma(2, 1.5, (count, 1))).astype(np.float32)


def draw(probabilities: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """One token a row."""
    sums = probabilities.cumsum(-1)
    return (sums < rng.random((len(sums), 1)) * sums[:, -1:]).sum(-1)


def softmax(logits: NDArray[np.float32], temperature: float = SAMPLING.temperature) -> Floats:
    weights = np.exp((logits - logits.max(-1, keepdims=True)).astype(np.float64) / temperature)
    return weights / weights.sum(-1, keepdims=True)


def right(logits: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    return draw(softmax(logits), rng)


def too_sharp(logits: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    return draw(softmax(logits, 0.97 * SAMPLING.temperature), rng)


def too_flat(logits: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    return draw(softmax(logits, 1.03 * SAMPLING.temperature), rng)


def guesses(logits: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    """What a drafter may say: the likeliest token for half of the places, any one for others."""
    return np.where(rng.random(len(logits)) < 0.5, logits.argmax(-1), rng.integers(0, VOCAB))


def rejection(logits: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rejection sampling of guesses done right: what replaces a wrong one cannot be it."""
    wanted, guess = softmax(logits), guesses(logits, rng)
    rows = np.arange(len(logits))
    accepted = rng.random(len(logits)) < wanted[rows, guess]
    wanted[rows, guess] = 0.0
    return np.where(accepted, guess, draw(wanted, rng))


def unmasked_rejection(logits: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    """A rejected guess may be drawn after all: it comes too often."""
    wanted, guess = softmax(logits), guesses(logits, rng)
    accepted = rng.random(len(logits)) < wanted[np.arange(len(logits)), guess]
    return np.where(accepted, guess, draw(wanted, rng))


def foreign_temperature(logits: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    """VLLM's defect on CPUs: places with guesses read another memory's temperature."""
    has_guess = rng.random(len(logits)) < 0.1
    wrong = draw(softmax(logits, 10.0), rng)
    return np.where(has_guess, wrong, draw(softmax(logits), rng))


def scored(sampler: Sampler, rng: np.random.Generator, count: int = TOKENS) -> TokenScores:
    logits = make_logits(rng, count)
    return score_tokens(logits, sampler(logits, rng), SAMPLING)


@pytest.mark.parametrize("sampler", [right, rejection])
def test_a_right_sampler_fails_at_the_stated_rate(sampler: Sampler) -> None:
    """Over 400 runs p-values below 0.05 come as often as they should, give or take chance."""
    rng = np.random.default_rng(3)
    sharp, ranks = [], []
    for _ in range(400):
        scores = scored(sampler, rng, 400)
        sharp.append(sharpness(scores).p_value)
        ranks.append(ranks_p_value(uniform_ranks(scores, rng)))
    for p_values in (sharp, ranks):
        assert 8 <= sum(p < 0.05 for p in p_values) <= 35
        assert uniformity_p_value(p_values) > 1e-3


@pytest.mark.parametrize(
    ("sampler", "sign"), [(too_sharp, 1), (too_flat, -1)], ids=["sharp", "flat"]
)
def test_a_temperature_off_by_3_percent_is_seen_and_named(sampler: Sampler, sign: int) -> None:
    """The p-value is far below any threshold, and the estimate says by how much."""
    found = sharpness(scored(sampler, np.random.default_rng(4), 40_000))
    assert found.p_value < 1e-4
    assert found.excess == pytest.approx(sign * 0.03, abs=3 * found.std_error)


def test_a_tolerance_lets_small_errors_pass() -> None:
    """An error within the tolerance counts as right; a larger one does not."""
    scores = scored(too_sharp, np.random.default_rng(4), 40_000)
    assert sharpness(scores, 0.05).p_value == 1.0
    assert sharpness(scores, 0.005).p_value < 1e-3


@pytest.mark.parametrize("sampler", [unmasked_rejection, foreign_temperature])
def test_wrong_rejection_is_seen(sampler: Sampler) -> None:
    """Both tests see tokens that come too often."""
    rng = np.random.default_rng(5)
    scores = scored(sampler, rng)
    assert sharpness(scores).p_value < 1e-4
    assert ranks_p_value(uniform_ranks(scores, rng)) < 1e-4


def test_repeated_draws_are_seen() -> None:
    """Two texts from the same uniform numbers are each right, and not independent."""
    rng = np.random.default_rng(6)
    logits = make_logits(rng, 500)
    tokens = right(logits, rng)
    scores = score_tokens(np.concatenate([logits, logits]), np.tile(tokens, 2), SAMPLING)
    ranks = uniform_ranks(scores, rng)
    pairs = np.arange(500), np.arange(500, 1000)
    assert independence_p_value(ranks, pairs) < 1e-6
    assert independence_p_value(rng.random(1000), pairs) > 1e-3


def test_chi_square_tail_is_known() -> None:
    """Known quantiles of the distribution, at even and odd degrees of freedom."""
    assert chi_square_p_value(3.841459, 1) == pytest.approx(0.05, rel=1e-4)
    assert chi_square_p_value(18.307038, 10) == pytest.approx(0.05, rel=1e-4)
    assert chi_square_p_value(52.620, 23) == pytest.approx(0.0004, rel=0.05)


def test_nothing_to_test_gives_no_alarm() -> None:
    """Few tokens, or none that are open, say nothing against a sampler."""
    certain = np.full((3, VOCAB), -200.0, np.float32)
    certain[:, 7] = 0.0
    scores = score_tokens(certain, np.full(3, 7), SAMPLING)
    assert sharpness(scores).p_value == pytest.approx(1.0)
    assert ranks_p_value(uniform_ranks(scores, np.random.default_rng(0))) == 1.0
    assert independence_p_value(np.empty(0), (np.empty(0, np.intp), np.empty(0, np.intp))) == 1.0
    assert uniformity_p_value([]) == 1.0
