"""What is known of the lengths of one group, and what follows from it.

At the start, and after the first chunk of one member, of many groups the same little is known. They
share what is worked out from it, so that this costs once for all.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from seer.scheduling.level_grid import Level


@dataclass(slots=True)
class Conclusions:
    """What has been worked out from what is known; empty: nothing yet."""

    level: Level | None = None
    """Posterior of mu_g."""
    quantiles: dict[tuple[int, float], float] = field(default_factory=dict)
    """Of a member's length, by the tokens that it has and the share."""

    def forget(self) -> None:
        """They no longer hold."""
        self.level = None
        self.quantiles.clear()

    def copy(self) -> "Conclusions":
        """The same, to change apart."""
        return Conclusions(self.level, dict(self.quantiles))


class Alike(NamedTuple):
    """All that is known of a group with one member under way at most, and none finished."""

    max_tokens: int
    prior_log: float | None
    member: int
    """Who is under way, if anybody is."""
    num_generated: int
    """What that member has; 0: nobody has begun."""


@dataclass(slots=True)
class GroupKnowledge:
    """Of one group."""

    max_tokens: int
    prior_log: float | None
    finished_logs: list[float] = field(default_factory=list)
    longer_than: dict[int, int] = field(default_factory=dict)
    """Members known to be longer than this: those under way, and those that the limit has cut."""
    weighed: dict[int, int] = field(default_factory=dict)
    """What members under way had when the level was last worked out because of them."""
    crowd: Alike | None = None
    """Whose conclusions it shares; None: it has its own."""
    conclusions: Conclusions = field(default_factory=Conclusions)

    @property
    def num_known(self) -> int:
        """Members that anything is known of."""
        return len(self.finished_logs) + len(self.longer_than)

    def alike(self) -> Alike | None:
        """What it has in common with others; None: it is known too well, or not up to date."""
        if self.finished_logs or len(self.longer_than) > 1 or self.longer_than != self.weighed:
            return None
        member, num_generated = next(iter(self.longer_than.items()), (0, 0))
        return Alike(self.max_tokens, self.prior_log, member, num_generated)


@dataclass(slots=True)
class Crowd:
    """Groups of which the same is known."""

    conclusions: Conclusions = field(default_factory=Conclusions)
    group_ids: dict[int, None] = field(default_factory=dict)
