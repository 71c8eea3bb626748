"""Scores of tokens in small distributions that can be counted by hand."""

import numpy as np
import pytest

from seer.engines.fidelity.scores import joined, score_tokens
from seer.types import SamplingParams

CHANCES = np.array([[0.1, 0.4, 0.2, 0.3]])
LOGITS = np.log(CHANCES).astype(np.float32)


def test_scores_are_those_of_the_distribution() -> None:
    """Log-probability, entropy, variance, and the mass of the likelier tokens."""
    scores = score_tokens(LOGITS, np.array([2]), SamplingParams())
    logs = np.log(CHANCES[0])
    mean = (CHANCES[0] * logs).sum()
    assert scores.logprob[0] == pytest.approx(np.log(0.2), abs=1e-6)
    assert scores.entropy[0] == pytest.approx(-mean, abs=1e-6)
    assert scores.variance[0] == pytest.approx((CHANCES[0] * (logs - mean) ** 2).sum(), abs=1e-6)
    assert scores.above[0] == pytest.approx(0.7, abs=1e-6)
    assert scores.mass[0] == pytest.approx(0.2, abs=1e-6)
    assert scores.shortfall[0] == 0


def test_temperature_comes_before_the_softmax() -> None:
    """At temperature 2 probabilities are as their square roots."""
    scores = score_tokens(LOGITS, np.array([0]), SamplingParams(temperature=2.0))
    roots = np.sqrt(CHANCES[0])
    assert scores.mass[0] == pytest.approx(roots[0] / roots.sum(), abs=1e-6)


@pytest.mark.parametrize(
    ("sampling", "kept"),
    [
        (SamplingParams(top_k=2), [1, 3]),
        (SamplingParams(top_p=0.6), [1, 3]),
        (SamplingParams(top_p=0.71), [1, 2, 3]),
        (SamplingParams(min_p=0.6), [1, 3]),
        (SamplingParams(top_k=3, top_p=0.5), [1, 3]),
        (SamplingParams(min_p=1.0), [1]),
    ],
)
def test_filters_keep_what_vllm_keeps(sampling: SamplingParams, kept: list[int]) -> None:
    """What is cut has no mass, and misses the cut; what is kept sums to 1."""
    scores = score_tokens(LOGITS.repeat(4, 0), np.arange(4), sampling)
    assert scores.mass.sum() == pytest.approx(1.0)
    assert np.flatnonzero(scores.mass).tolist() == kept
    assert np.flatnonzero(scores.shortfall == 0).tolist() == kept
    cut = np.setdiff1d(np.arange(4), kept)
    assert (scores.logprob[cut] <= scores.logprob[kept].min() + 1e-6).all()


def test_ties_go_by_token_id_and_stay_at_a_cut() -> None:
    """Equal tokens: the lower id counts as likelier, and a filter keeps all or none."""
    scores = score_tokens(np.zeros((3, 3), np.float32), np.arange(3), SamplingParams(top_k=1))
    assert scores.above == pytest.approx([0, 1 / 3, 2 / 3])


def test_parts_and_joins_are_each_others_inverse() -> None:
    """Scores taken apart and joined are the same."""
    scores = score_tokens(LOGITS.repeat(4, 0), np.arange(4), SamplingParams())
    again = joined([scores.part(slice(0, 1)), scores.part(slice(1, 4))])
    assert again.logprob.tolist() == scores.logprob.tolist()
    assert len(again) == 4
