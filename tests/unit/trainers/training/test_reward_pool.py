"""Reward processes: what a call does to its process harms neither the next call nor the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seer.errors import InvalidInput
from seer.trainers.training.config import TaskConfig
from seer.trainers.training.items import DataSetRef
from seer.trainers.training.reward_messages import Outcome, Raised, RewardCall, RewardRules, Scored
from seer.trainers.training.reward_pool import RewardPool

pytest.importorskip("reasoning_gym")

BEHAVIOURS = Path(__file__).with_name("reward_behaviours.py")
DATA_SET = DataSetRef(task=TaskConfig(name="chain_sum"), seed=3, size=4)
FINE = Scored(reward=0.5, is_correct=None)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pool") / "log"


@pytest.fixture(scope="module")
def pool(log: Path) -> Iterator[RewardPool]:
    """One process with a limit of a second."""
    rules = RewardRules(data_sets=(DATA_SET,), reward_function=f"{BEHAVIOURS}:score")
    with RewardPool(rules, num_workers=1, timeout_s=1.0, log_path=log) as pool:
        yield pool


def scores(pool: RewardPool, *responses: str) -> list[Outcome]:
    calls = [RewardCall(data_set=0, index=1, prompt="?", response=each) for each in responses]
    return [future.result() for future in [pool.submit(call) for call in calls]]


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ("hang", "no answer within 1 s"),
        ("die", "the reward process ended (exit code 3)"),
    ],
)
def test_calls_that_end_their_process(pool: RewardPool, response: str, why: str) -> None:
    """A call that hangs or ends its process says so, and another process serves the next one."""
    assert scores(pool, response, "fine") == [Raised(why=why), FINE]


def test_prints_go_to_the_log(pool: RewardPool, log: Path) -> None:
    """What a function prints does no harm, and can be read."""
    assert scores(pool, "print") == [FINE]
    assert "hello" in log.read_text(encoding="utf-8")


def test_rules_that_cannot_be_followed(tmp_path: Path) -> None:
    """A function that cannot be loaded is refused when the processes start."""
    rules = RewardRules(data_sets=(DATA_SET,), reward_function="none.py:score")
    pool = RewardPool(rules, num_workers=1, timeout_s=1.0, log_path=tmp_path / "log")
    with pytest.raises(InvalidInput, match=r"reward_function: got 'none\.py:score'"), pool:
        pass
