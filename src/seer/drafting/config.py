"""How a rollout drafts, as configuration."""

import math

import msgspec

from seer.costmodel.step_time import StepTime, SurfaceStepTime
from seer.drafting.budget import Budget, FixedBudget, MarginalBenefit, SeerBudget
from seer.errors import InvalidInput

OFF = "off"
MARGINAL = "marginal"
SEER = "seer"
_FIXED = "fixed:"
MAX_DRAFT_TOKENS = 32
"""Most guesses that one step may verify for a request, besides the token it draws anyway."""
DRAFTINGS = f"{OFF}, {MARGINAL}, {SEER}, or {_FIXED}N with N from 1 to {MAX_DRAFT_TOKENS}"


class DraftingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether and how guesses are drafted and verified. Raises InvalidInput on a bad value."""

    budget: str = OFF
    """How many guesses a step verifies: `off`; `fixed:N` for each request; `marginal`, the paper's
    Algorithm 1; `seer`, ours."""
    step_time: SurfaceStepTime | None = None
    """Of one instance, for `marginal` and `seer`; None: each instance measures its own."""
    warm_start: bool = False
    """Begin a prompt's tree with what earlier versions of the weights wrote to it."""
    fetch_period_s: float = 0.1
    """Time between two exchanges of an instance with the draft server."""
    server: str | None = None
    """Address of the draft server, or several by commas, over which the groups are sharded. A
    rollout of several instances starts what it needs and fills this in."""

    def __post_init__(self) -> None:
        _check_budget(self.budget)
        if not (math.isfinite(self.fetch_period_s) and self.fetch_period_s > 0):
            raise InvalidInput("fetch_period_s", self.fetch_period_s, "allowed: a number > 0")

    @property
    def is_on(self) -> bool:
        """Whether anything is drafted."""
        return self.budget != OFF

    @property
    def needs_step_time(self) -> bool:
        """Whether the budget asks how long steps take and nobody has said it."""
        return self.budget in {MARGINAL, SEER} and self.step_time is None


def make_budget(name: str, step_time: StepTime | None) -> Budget:
    """The budget of that name (not `off`); `marginal` and `seer` need the step time."""
    if name.startswith(_FIXED):
        return FixedBudget(int(name.removeprefix(_FIXED)))
    assert step_time is not None  # noqa: S101 - see needs_step_time
    if name == MARGINAL:
        return MarginalBenefit(step_time=step_time)
    return SeerBudget(step_time=step_time)


def _check_budget(name: str) -> None:
    number = name.removeprefix(_FIXED)
    is_number = name != number and number.isascii() and number.isdecimal()
    is_fixed = is_number and 1 <= int(number) <= MAX_DRAFT_TOKENS
    if not is_fixed and name not in {OFF, MARGINAL, SEER}:
        raise InvalidInput("drafting", name, f"allowed: {DRAFTINGS}")
