"""Our length estimate: what a group's members are likely to become, given all that is known.

Log lengths are normal at two levels: a group has a level mu_g ~ N(m, tau^2), its members lie around
it with N(mu_g, sigma^2). What is known of a group: lengths of finished members, and of the others
that they are longer than what they have. Both go into the posterior of mu_g, on a fixed grid; its
mean and variance make a member's length log-normal again, which is then cut below at what the
member has and above at the limit. m, tau and sigma come from the other groups of the same
iteration, by expectation maximisation as requests finish.
# Paper silent: its estimate (the longest finished member) ignores running members.
"""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from seer.scheduling.level_grid import Level, LevelGrid
from seer.scheduling.lognormal import expected_beyond, hazard, quantile_beyond
from seer.types import GroupSpec, RequestId

PRIOR_SIGMA = 0.3
"""Standard deviation of a log mean length from an earlier iteration, as evidence about mu_g."""
START_TAU, START_SIGMA = 0.8, 0.5
MIN_TAU, MIN_SIGMA = 0.1, 0.1
REFIT_GROWTH = 1.25
"""m, tau, sigma are fitted again when so many times more requests are finished."""
RELEVANT_GROWTH = 1.1
"""A member under way that has grown by less tells hardly more of its group than before."""
_FAR_BELOW = -6.0


@dataclass(slots=True)
class _Group:
    """What is known of one group."""

    max_tokens: int
    prior_log: float | None
    finished_logs: list[float] = field(default_factory=list)
    longer_than: dict[int, int] = field(default_factory=dict)
    """Members known to be longer than this: those under way, and those that the limit has cut."""
    weighed: dict[int, int] = field(default_factory=dict)
    """What members under way had when the level was last worked out because of them."""
    level: Level | None = None
    """None: to be computed."""
    quantiles: dict[tuple[int, float], float] = field(default_factory=dict)
    """At this level, by least length and share: what siblings have asked for already."""

    @property
    def num_known(self) -> int:
        """Members that anything is known of."""
        return len(self.finished_logs) + len(self.longer_than)

    def forget_level(self) -> None:
        """What is known of it has changed."""
        self.level = None
        self.quantiles.clear()


class Alike(NamedTuple):
    """All that is known of a group with one member under way at most, and none finished."""

    max_tokens: int
    prior_log: float | None
    member: int | None
    """Who is under way."""
    num_generated: int
    """What that member has."""


@dataclass(slots=True)
class _Sums:
    """What a fit needs of the groups."""

    groups: int = 0
    level: float = 0.0
    level_squared: float = 0.0
    residual: float = 0.0
    """Squared deviations of members from their group's level."""
    members: int = 0


class ConditionalEstimator:
    """Expected length given what is known. News of a group cost O(its members)."""

    def __init__(self) -> None:
        self._groups: dict[int, _Group] = {}
        self._grids: dict[float | None, LevelGrid] = {}
        """By prior; until the next fit."""
        self._tails: dict[tuple[float, int], float] = {}
        """Squared deviations by level and bound; until the next fit."""
        self._past = _Sums()
        """Of groups that are complete."""
        self._mean = 0.0
        self._tau = START_TAU
        self._sigma = START_SIGMA
        self._num_finished = 0
        self._next_fit = 1.0
        self.num_fits = 0
        """How often m, tau and sigma have been fitted; all estimates change with them."""

    @property
    def sigma_within(self) -> float:
        """Fitted standard deviation of log lengths within a group."""
        return self._sigma

    @property
    def sigma_between(self) -> float:
        """Fitted standard deviation of the groups' levels."""
        return self._tau

    @property
    def group_ids(self) -> list[int]:
        """Groups that are not complete, in the order in which they came."""
        return list(self._groups)

    def add_group(self, group: GroupSpec) -> None:
        """Nothing is known yet but the limit, and perhaps an earlier iteration."""
        prior = math.log(group.prior_tokens) if group.prior_tokens else None
        self._groups[group.group_id] = _Group(group.max_tokens, prior)
        if not self._num_finished:
            self._mean = math.log(group.max_tokens) - 1.0
            self._grids.clear()

    def progressed(self, request_id: RequestId, num_generated: int) -> bool:
        """The request is longer than this. Its siblings' estimates change if it has grown much."""
        group = self._groups[request_id.group]
        if not num_generated:
            return False
        group.longer_than[request_id.member] = num_generated
        if num_generated <= RELEVANT_GROWTH * group.weighed.get(request_id.member, 0):
            return False
        group.weighed[request_id.member] = num_generated
        group.forget_level()
        return True

    def finished(self, request_id: RequestId, num_tokens: int) -> None:
        """One length more, or one more that the limit has cut."""
        group = self._groups[request_id.group]
        if num_tokens >= group.max_tokens:
            group.longer_than[request_id.member] = num_tokens
        else:
            group.longer_than.pop(request_id.member, None)
            group.finished_logs.append(math.log(max(num_tokens, 1)))
        group.forget_level()
        self._num_finished += 1
        if self._num_finished >= self._next_fit:
            self._next_fit = self._num_finished * REFIT_GROWTH
            self._fit()

    def alike(self, group_id: int) -> Alike | None:
        """What is known of a group of which hardly anything is; None: more than that.

        Equal values of two groups mean equal estimates of members with equally many tokens.
        """
        group = self._groups[group_id]
        if group.finished_logs or len(group.longer_than) > 1 or group.longer_than != group.weighed:
            return None
        member, least = next(iter(group.longer_than.items()), (None, 0))
        return Alike(group.max_tokens, group.prior_log, member, least)

    def remove_group(self, group_id: int) -> None:
        """Forget it, but for what it teaches about the others."""
        group = self._groups.pop(group_id, None)
        if group is not None and group.num_known:
            self._add_moments(self._past, group)

    def estimate(self, request_id: RequestId) -> float:
        """Expected tokens of an unfinished request."""
        group, least, mean, sigma = self._predictive(request_id)
        if least >= group.max_tokens:
            return float(group.max_tokens)
        return expected_beyond(mean, sigma, least, group.max_tokens)

    def quantile(self, request_id: RequestId, share: float) -> float:
        """Tokens that an unfinished request stays below with probability `share`."""
        group, least, mean, sigma = self._predictive(request_id)
        known = group.quantiles.get((least, share))
        if known is None:
            known = min(quantile_beyond(mean, sigma, least, share), float(group.max_tokens))
            group.quantiles[least, share] = known
        return known

    def _predictive(self, request_id: RequestId) -> tuple[_Group, int, float, float]:
        """Group, least length, and mean and deviation of the log length before that cut."""
        group = self._groups[request_id.group]
        level = self._level(group)
        sigma = math.sqrt(level.variance + self._sigma**2)
        return group, group.longer_than.get(request_id.member, 0), level.mean, sigma

    def _level(self, group: _Group) -> Level:
        if group.level is None:
            group.level = self._posterior(group)
        return group.level

    def _posterior(self, group: _Group) -> Level:
        grid = self._grids.get(group.prior_log)
        if grid is None:
            grid = LevelGrid(*self._group_prior(group), self._sigma)
            self._grids[group.prior_log] = grid
        return grid.level(group.finished_logs, list(group.longer_than.values()))

    def _group_prior(self, group: _Group) -> tuple[float, float]:
        """Mean and deviation of mu_g before this iteration's members are looked at."""
        if group.prior_log is None:
            return self._mean, self._tau
        level = group.prior_log - self._sigma**2 / 2  # a mean length lies above the median
        precision = self._tau**-2 + PRIOR_SIGMA**-2
        mean = (self._mean * self._tau**-2 + level * PRIOR_SIGMA**-2) / precision
        return mean, precision**-0.5

    def _fit(self) -> None:
        """One step of expectation maximisation over all groups that anything is known of."""
        sums = replace(self._past)
        for group in self._groups.values():
            if group.num_known:
                self._add_moments(sums, group)
        mean = sums.level / sums.groups
        variance = sums.level_squared / sums.groups - mean * mean
        self._mean = mean
        self._tau = math.sqrt(max(MIN_TAU**2, variance))
        self._sigma = math.sqrt(max(MIN_SIGMA**2, sums.residual / sums.members))
        self._grids.clear()
        self._tails.clear()
        self.num_fits += 1
        for group in self._groups.values():
            group.forget_level()

    def _add_moments(self, sums: _Sums, group: _Group) -> None:
        """A member known only to be longer counts with the moments of the tail beyond."""
        level = self._level(group)
        sums.groups += 1
        sums.level += level.mean
        sums.level_squared += level.variance + level.mean**2
        sums.members += group.num_known
        sums.residual += group.num_known * level.variance
        for length in group.finished_logs:
            sums.residual += (length - level.mean) ** 2
        for least in group.longer_than.values():
            sums.residual += self._tail_square(level.mean, least)

    def _tail_square(self, mean: float, least: int) -> float:
        """Expected squared deviation from `mean` of a log length beyond log `least`."""
        known = self._tails.get((mean, least))
        if known is None:
            z = max((math.log(least) - mean) / self._sigma, _FAR_BELOW)
            known = self._sigma**2 * (1 + z * hazard(z))
            self._tails[mean, least] = known
        return known
