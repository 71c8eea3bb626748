"""A user's file with a reward that a random model can learn from."""

from typing import Any


def share_of_digits(completion: str, **_: Any) -> float:
    """Digits among the characters of a response."""
    return sum(each.isdigit() for each in completion) / max(len(completion), 1)


def not_a_number(completion: str, **_: Any) -> float:
    """NaN for every response."""
    del completion
    return float("nan")
