"""What a check found: numbers, and what failed."""

import msgspec

from seer.errors import SeerError


class NotFaithful(SeerError, RuntimeError):
    """An engine did not pass the check."""


class SeedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one seed by themselves: p-values."""

    sharpness_p: float
    ranks_p: float


class ArmReport(msgspec.Struct, frozen=True, kw_only=True):
    """One arm. The fields `*_p` are p-values."""

    arm: str
    num_tokens: int
    num_drafted: int
    num_accepted: int
    num_moves: int
    """Chunks that ran on another instance than the one before."""
    temperature: float
    """At which the tokens look drawn,"""
    temperature_error: float
    """and its standard error."""
    sharpness_p: float
    ranks_p: float
    independence_p: float
    seeds_p: float
    """Of the seeds' own p-values lying no nearer to 0 than chance has it."""
    largest_gap: float
    """|Log-probability reported - rescored|."""
    mean_gap: float
    num_excluded: int
    """Tokens that the sampling's filters exclude."""
    seeds: tuple[SeedReport, ...]
    failures: tuple[str, ...] = ()
    """What speaks against the engine, in words; empty: nothing."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole check."""

    false_alarm: float
    """Probability, at most, that a right engine fails by chance."""
    least_p: float
    """What every arm's p-values are held against."""
    arms: tuple[ArmReport, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not any(arm.failures for arm in self.arms)
