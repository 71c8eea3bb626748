"""vLLM's sampling parameters in chunks."""

from typing import Any

import pytest

from seer.errors import InvalidInput
from seer.trainers.borrowed.rewards import check_reward
from seer.trainers.borrowed.spec import BorrowedSettings
from seer.trainers.borrowed.vllm_params import chunk_limits, seer_sampling
from seer.types import SamplingParams


def test_sampling() -> None:
    """Names are the same; what is off is off in each of vLLM's ways to say so."""
    plain = {"max_tokens": 9, "top_k": -1, "min_p": None, "stop": None, "seed": None, "n": 1}
    assert seer_sampling(plain) == SamplingParams(max_tokens=9)
    given = {"max_tokens": 9, "top_k": 5, "top_p": 0.5, "stop": "x", "stop_token_ids": [3]}
    expected = SamplingParams(max_tokens=9, top_k=5, top_p=0.5, stop=("x",), stop_token_ids=(3,))
    assert seer_sampling(given) == expected


@pytest.mark.parametrize(
    ("given", "name"),
    [({"n": 2}, "n"), ({"seed": 0}, "seed"), ({"frequency_penalty": 1.0}, "frequency_penalty")],
)
def test_refused(given: dict[str, Any], name: str) -> None:
    """What would mean something else in each chunk."""
    with pytest.raises(InvalidInput, match=f"{name}: got"):
        seer_sampling({"max_tokens": 9, **given})
    with pytest.raises(InvalidInput, match="max_tokens: got None"):
        seer_sampling({"max_tokens": None})


@pytest.mark.parametrize(
    ("least", "generated", "left"), [(1, 0, 1), (1, 5, 0), (10, 4, 6), (50, 4, 8), (None, 0, 0)]
)
def test_min_tokens_is_of_the_response(least: int | None, generated: int, left: int) -> None:
    """What is left of it in a chunk of 8."""
    limits = chunk_limits({"min_tokens": least}, 8, generated)
    assert limits == {"max_tokens": 8, "min_tokens": left}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "1", [1.0]])
def test_rewards_that_are_none(value: object) -> None:
    """Named with their sample."""
    with pytest.raises(InvalidInput, match="for sample 4"):
        check_reward(value, "sample 4")


def test_settings() -> None:
    """Least values."""
    for name in ("chunk_size", "kv_tokens", "max_running"):
        with pytest.raises(InvalidInput, match=f"{name}: got 0"):
            BorrowedSettings(**{name: 0})
