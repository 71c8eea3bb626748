"""From scores to a verdict: what fails an engine, and in which words."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from seer.engines.fidelity.scores import score_tokens
from seer.engines.fidelity.verdict import ALLOWANCES, Evidence, judge
from seer.errors import InvalidInput
from seer.types import SamplingParams

SEEDS, GROUPS, SIZE, LENGTH = 5, 2, 3, 40
RESPONSES = SEEDS * GROUPS * SIZE
ALLOWANCE = ALLOWANCES["float32"]


def evidence_of(
    seed: int, *, repeats_chunks: bool = False, repeats_siblings: bool = False
) -> Evidence:
    """A right engine's tokens, or those of one whose draws come again."""
    rng = np.random.default_rng(seed)
    draws = rng.random((RESPONSES, LENGTH))
    if repeats_chunks:
        draws = np.tile(draws[:, :10], (1, LENGTH // 10))
    if repeats_siblings:
        draws = draws[np.arange(RESPONSES) // SIZE]
    logits = np.tile(rng.normal(0, 2, 30).astype(np.float32), (RESPONSES * LENGTH, 1))
    weights = np.exp(logits)
    sums = weights.cumsum(-1)
    tokens = (sums < draws.reshape(-1, 1) * sums[:, -1:]).sum(-1)
    scores = score_tokens(logits, tokens, SamplingParams())
    return Evidence(
        arm="moves",
        scores=scores,
        reported=scores.logprob + rng.normal(0, 1e-5, len(scores)),
        lengths=[LENGTH] * RESPONSES,
        temperature=1.0,
        num_seeds=SEEDS,
        group_size=SIZE,
        chunk_size=10,
        num_drafted=100,
        num_accepted=60,
        num_moves=20,
        wants_drafts=True,
        wants_moves=True,
    )


def failures(evidence: Evidence) -> str:
    report = judge([evidence], ALLOWANCE, 0.001)
    assert report.passed == (not report.arms[0].failures)
    return "; ".join(report.arms[0].failures)


def test_right_engines_pass_but_for_the_stated_rate() -> None:
    """At a false alarm of 0.2, of 100 right engines not many more than 20 fail."""
    reports = [judge([evidence_of(i), evidence_of(i + 1000)], ALLOWANCE, 0.2) for i in range(100)]
    assert sum(not report.passed for report in reports) <= 35
    assert reports[0].least_p == pytest.approx(0.2 / 8)


def test_the_report_has_the_numbers_of_every_seed() -> None:
    """Each seed's tokens are tested by themselves too."""
    report = judge([evidence_of(1)], ALLOWANCE, 0.001)
    assert report.passed
    (arm,) = report.arms
    assert len(arm.seeds) == SEEDS
    assert arm.num_tokens == RESPONSES * LENGTH
    assert arm.temperature == pytest.approx(1.0, abs=4 * arm.temperature_error)
    assert msgspec.json.decode(msgspec.json.encode(report))["arms"][0]["num_drafted"] == 100


def test_draws_that_begin_anew_with_a_chunk_fail() -> None:
    """Right one by one, and the same in every chunk."""
    assert "repeat" in failures(evidence_of(2, repeats_chunks=True))


def test_siblings_with_one_seed_fail() -> None:
    """All members of a group draw the same."""
    assert "repeat" in failures(evidence_of(3, repeats_siblings=True))


def test_foreign_log_probabilities_fail() -> None:
    """One token's log-probability off by 0.01, and none at all."""
    evidence = evidence_of(4)
    wrong = evidence.reported.copy()
    wrong[7] += 0.01
    assert "not the tokens' own" in failures(replace(evidence, reported=wrong))
    wrong[7] = np.nan
    assert "not the tokens' own" in failures(replace(evidence, reported=wrong))


def test_excluded_tokens_fail() -> None:
    """A token beyond the filters' cut is drawn once."""
    evidence = evidence_of(5)
    shortfall = evidence.scores.shortfall.copy()
    shortfall[3] = 0.5
    scores = replace(evidence.scores, shortfall=shortfall)
    assert "1 tokens that" in failures(replace(evidence, scores=scores))


def test_an_arm_that_tests_nothing_fails() -> None:
    """No accepted guess, or no move, says nothing of them."""
    evidence = evidence_of(6)
    assert "nothing is known of drafts" in failures(replace(evidence, num_accepted=0))
    assert "nothing is known of moves" in failures(replace(evidence, num_moves=0))


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_a_false_alarm_out_of_bounds_is_refused(value: float) -> None:
    """It is a probability above 0 and below 1."""
    with pytest.raises(InvalidInput, match="false_alarm"):
        judge([evidence_of(1)], ALLOWANCE, value)
