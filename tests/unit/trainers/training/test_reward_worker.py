"""Scoring responses: the tasks' verifiers, and users' functions."""

from pathlib import Path

import pytest

from seer.errors import InvalidInput
from seer.trainers.training.config import TaskConfig
from seer.trainers.training.items import DataSetRef
from seer.trainers.training.reward_messages import (
    NotAReward,
    Outcome,
    Raised,
    RewardCall,
    RewardRules,
    Scored,
)
from seer.trainers.training.reward_worker import Scorer, load_function

pytest.importorskip("reasoning_gym")

BEHAVIOURS = Path(__file__).with_name("reward_behaviours.py")
TASK = TaskConfig(name="chain_sum", answer="last_number", params={"max_terms": 2})
DATA_SET = DataSetRef(task=TASK, seed=3, size=4)
ANSWER = DATA_SET.open()[1]["answer"]
VERIFIED = RewardRules(data_sets=(DATA_SET,))
BY_FUNCTION = RewardRules(data_sets=(DATA_SET,), reward_function=f"{BEHAVIOURS}:score")


def score(rules: RewardRules, response: str, *, by_verifier: bool = False) -> Outcome:
    call = RewardCall(data_set=0, index=1, prompt="?", response=response, by_verifier=by_verifier)
    return Scorer(rules).score(call)


def test_verifier() -> None:
    """A right answer in the form asked for is worth 1, any other response 0."""
    assert score(VERIFIED, f"It is {ANSWER}.") == Scored(reward=1.0, is_correct=True)
    assert score(VERIFIED, "It is 1234567.") == Scored(reward=0.0, is_correct=False)
    assert score(VERIFIED, "Who knows?") == Scored(reward=0.0, is_correct=False)


def test_format_bonus() -> None:
    """An answer in the form asked for may be worth something by itself."""
    rules = RewardRules(data_sets=(DATA_SET,), format_bonus=0.25)
    assert score(rules, "It is 1234567.") == Scored(reward=0.25, is_correct=False)
    assert score(rules, "Who knows?") == Scored(reward=0.0, is_correct=False)


def test_partial_credit() -> None:
    """The verifier's own score counts where it is asked for, and is right only when full."""
    task = TaskConfig(name="chain_sum", answer="whole", params={"max_terms": 2})
    rules = RewardRules(data_sets=(DataSetRef(task=task, seed=3, size=4),), partial_credit=True)
    outcome = score(rules, f"{ANSWER} I think")
    assert isinstance(outcome, Scored)
    assert 0 < outcome.reward < 1
    assert not outcome.is_correct


def test_users_function() -> None:
    """A user's function gets response, prompt, task and entry."""
    assert score(BY_FUNCTION, ANSWER) == Scored(reward=0.25, is_correct=None)


def test_evaluation_asks_the_verifier() -> None:
    """A call may ask for the verifier where a function makes the rewards."""
    right = score(BY_FUNCTION, ANSWER, by_verifier=True)
    assert right == Scored(reward=1.0, is_correct=True)


def test_a_call_that_raises_says_where() -> None:
    """Whatever a function raises becomes an outcome that names the place."""
    outcome = score(BY_FUNCTION, "raise")
    assert isinstance(outcome, Raised)
    assert outcome.why.startswith("KeyError: 'nothing there' (reward_behaviours.py:")


@pytest.mark.parametrize(
    ("response", "shown"), [("nan", "nan"), ("list", "[1.0]"), ("none", "None")]
)
def test_what_is_no_reward(response: str, shown: str) -> None:
    """NaN, lists and None are not taken for numbers."""
    assert score(BY_FUNCTION, response) == NotAReward(returned=shown)


@pytest.mark.parametrize(
    "named",
    [
        "score",
        "no_such_module:score",
        "none.py:score",
        f"{BEHAVIOURS}:none",
        f"{BEHAVIOURS}:NOT_A_FUNCTION",
    ],
)
def test_functions_that_cannot_be_loaded(named: str) -> None:
    """A name that leads to no function is refused."""
    with pytest.raises(InvalidInput, match="reward_function: got"):
        load_function(named)


def test_function_of_a_module() -> None:
    """An importable module's function is found by its name."""
    assert load_function("math:floor")(1.5) == 1
