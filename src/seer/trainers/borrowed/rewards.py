"""The check of rewards that a trainer's own code has computed."""

import math
from typing import Any

from seer.errors import InvalidInput


def check_reward(value: Any, sample: str) -> None:
    """Raise InvalidInput, naming the sample, for what is no finite number (a tensor of one is)."""
    if isinstance(value, str) or not _is_finite(value):
        raise InvalidInput("reward", f"{value!r} for {sample}", "allowed: a finite number")


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, RuntimeError):  # no number; RuntimeError: a tensor of several
        return False
