"""Whether a rollout is on-policy: its log-probabilities against the trainer's own forward pass."""

import msgspec

from seer.errors import InvalidInput


class OnPolicyCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is compared, and what ends the run. Raises InvalidInput on a bad value."""

    share: float = 1.0
    """Part of the rows that are compared, at least one; 0: none, and nothing is known then."""
    tolerance: float | None = None
    """Largest |difference| of a token's log-probability; None: 1e-4 where engine and trainer both
    compute in float32, and no limit elsewhere. `math.inf`: no limit."""

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
