"""Whether a rollout is on-policy: its log-probabilities against the trainer's own forward pass."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from seer.errors import InvalidInput, SeerError

FLOAT32_TOLERANCE = 1e-4
"""Two float32 forward passes of one model differ by less but for a token in tens of thousands, and
one pass in float32 and one in float64 by less still; one optimiser step moves more."""


class OffPolicy(SeerError, RuntimeError):
    """Tokens were not drawn from the policy that is trained: the largest difference and where."""


class OnPolicyCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is compared, and what ends the run. Raises InvalidInput on a bad value."""

    share: float = 1.0
    """Part of the rows that are compared, at least one; 0: none, and nothing is known then."""
    tolerance: float | None = None
    """Largest |difference| of a token's log-probability; None: 1e-4 where engine and trainer both
    compute in float32, and no limit elsewhere. `math.inf`: no limit.

    With None, a row that is further off than 1e-4 is computed once more in float64, and that
    decides: the rounding of the trainer's own float32 pass reaches 1e-4 now and then."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise InvalidInput("share", self.share, "allowed: a number from 0 to 1")
        if self.tolerance is not None and not self.tolerance >= 0:
            raise InvalidInput("tolerance", self.tolerance, "allowed: a number >= 0, or None")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """|Seer's log-probability - the trainer's| over the tokens compared."""

    largest: float
    mean: float
    num_tokens: int
    row: int
    """Where the largest is: the row of the batch,"""
    position: int
    """and the place in its completion."""
    exact: "Difference | None" = None
    """The same from the trainer's model in float64, over the rows that are beyond the limit; None:
    there are none, or the limit is the user's own."""


def rows_to_check(num_rows: int, share: float, turn: int) -> list[int]:
    """Evenly spread rows, others at the next turn; at least one unless the share is 0."""
    count = int(np.ceil(share * num_rows))
    return sorted((turn + i * num_rows // count) % num_rows for i in range(count))


def compare(
    seer: Mapping[int, Sequence[float]], trainer: Mapping[int, Sequence[float]]
) -> Difference:
    """Log-probabilities by row and token, both sides of the same rows and lengths."""
    rows = list(seer)
    gaps = [np.abs(np.subtract(seer[row], trainer[row])) for row in rows]
    everything = np.concatenate(gaps)
    place = int(everything.argmax())  # of a NaN, if there is one
    ends = np.cumsum([gap.size for gap in gaps])
    which = int(np.searchsorted(ends, place, side="right"))
    return Difference(
        largest=float(everything[place]),
        mean=float(everything.mean()),
        num_tokens=everything.size,
        row=rows[which],
        position=place - int(ends[which] - gaps[which].size),
    )


def rows_beyond(
    seer: Mapping[int, Sequence[float]], trainer: Mapping[int, Sequence[float]], tolerance: float
) -> list[int]:
    """The rows with a token that differs by more than the tolerance, in order."""
    return [row for row in seer if np.abs(np.subtract(seer[row], trainer[row])).max() > tolerance]


def enforce(difference: Difference, tolerance: float) -> None:
    """Raise OffPolicy when the largest difference is above the tolerance, or no number.

    Where there is one from float64, it is that one which counts.
    """
    counts = difference.exact or difference
    if counts.largest <= tolerance:
        return
    raise OffPolicy(
        f"row {counts.row}, token {counts.position}: log-probabilities of rollout and trainer "
        f"differ by {counts.largest:.3g} (mean {difference.mean:.3g} over "
        f"{difference.num_tokens} tokens); allowed: {tolerance:g}. Do both use the same weights, "
        "dtype and rope settings?"
    )
