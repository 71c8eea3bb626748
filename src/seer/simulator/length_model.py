"""Made-up lengths with the structure that real groups have.

Log-normal at two levels: a group's level is drawn once, each member's deviation from it anew; then
cut at the limit (a response that would be longer stops there) and at a shortest length. The level's
centre is solved so that the mean after the cuts is the wanted one.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from seer.errors import InvalidInput
from seer.types import GroupSpec

_SOLVE_GROUPS = 4096


def draw_lengths(
    num_groups: int,
    group_size: int,
    *,
    mean_tokens: float,
    max_tokens: int,
    sigma_between: float,
    sigma_within: float,
    seed: int,
    min_tokens: int = 64,
) -> NDArray[np.int64]:
    """Output tokens, shape (num_groups, group_size).

    `sigma_between` and `sigma_within` are standard deviations of natural logs of length, before the
    cuts. Raises InvalidInput on a bad value, or a mean that the cuts do not allow.
    """
    _check(num_groups, group_size, mean_tokens, min_tokens, max_tokens)
    for name, value in (("sigma_between", sigma_between), ("sigma_within", sigma_within)):
        if not value >= 0:
            raise InvalidInput(name, value, "allowed: a number >= 0")
    centre = _solve_centre(mean_tokens, min_tokens, max_tokens, sigma_between, sigma_within)
    rng = np.random.default_rng(seed)
    level = centre + sigma_between * rng.standard_normal((num_groups, 1))
    logs = level + sigma_within * rng.standard_normal((num_groups, group_size))
    return np.clip(np.exp(logs).round(), min_tokens, max_tokens).astype(np.int64)


def make_groups(
    lengths: NDArray[np.int64], *, num_prompt_tokens: int, max_tokens: int
) -> tuple[GroupSpec, ...]:
    """Groups of these lengths, shape (groups, members)."""
    return tuple(
        GroupSpec(
            group_id=group,
            group_size=len(row),
            num_prompt_tokens=num_prompt_tokens,
            max_tokens=max_tokens,
            known_lengths=tuple(row),
        )
        for group, row in enumerate(lengths.tolist())
    )


def _solve_centre(
    mean_tokens: float, min_tokens: int, max_tokens: int, between: float, within: float
) -> float:
    """Bisection on a fixed sample of quantiles, so that it does not depend on the seed."""
    quantiles = (np.arange(_SOLVE_GROUPS) + 0.5) / _SOLVE_GROUPS
    spread = np.hypot(between, within) * _normal_quantile(quantiles)
    low, high = np.log(min_tokens) - 8 * (1 + spread.max()), np.log(max_tokens) + 8
    for _ in range(80):
        middle = (low + high) / 2
        mean = np.clip(np.exp(middle + spread), min_tokens, max_tokens).mean()
        low, high = (middle, high) if mean < mean_tokens else (low, middle)
    return float(low)


def _normal_quantile(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of the standard normal distribution, from the standard library's."""
    normal = NormalDist()
    return np.array([normal.inv_cdf(each) for each in share.tolist()])


def _check(
    num_groups: int, group_size: int, mean_tokens: float, min_tokens: int, max_tokens: int
) -> None:
    for name, value in (("num_groups", num_groups), ("group_size", group_size)):
        if value < 1:
            raise InvalidInput(name, value, "allowed: an integer >= 1")
    if not 1 <= min_tokens < max_tokens:
        raise InvalidInput("min_tokens", min_tokens, f"allowed: from 1 to below {max_tokens}")
    if not min_tokens < mean_tokens < max_tokens:
        allowed = f"allowed: between {min_tokens} and {max_tokens}"
        raise InvalidInput("mean_tokens", mean_tokens, allowed)
