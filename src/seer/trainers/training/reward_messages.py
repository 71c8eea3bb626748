"""What the trainer and its reward processes tell each other, as JSON."""

import msgspec

from seer.trainers.training.items import DataSetRef


class RewardRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a reward process needs to know once."""

    data_sets: tuple[DataSetRef, ...]
    reward_function: str | None = None
    """`module:function` or `file.py:function`; None: the tasks' verifiers."""
    partial_credit: bool = False
    format_bonus: float = 0.0


class RewardCall(msgspec.Struct, frozen=True, kw_only=True):
    """One response to be scored."""

    data_set: int
    index: int
    prompt: str
    response: str
    by_verifier: bool = False
    """By the task's verifier whatever the rules say: for evaluation."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The process has loaded what the rules name."""


class NotReady(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The rules cannot be followed."""

    field: str
    value: str
    allowed: str


class Scored(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A reward."""

    reward: float
    is_correct: bool | None
    """Whether the verifier gave a full score; None: it was not asked."""


class Raised(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The call raised, took too long, or ended its process; it has no reward."""

    why: str


class NotAReward(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The call returned something else than a finite number."""

    returned: str


Outcome = Scored | Raised | NotAReward
Answer = Ready | NotReady | Scored | Raised | NotAReward
