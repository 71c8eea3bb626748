"""Our length estimate: what a group's members are likely to become, given all that is known.

Log lengths are normal at two levels: a group has a level mu_g ~ N(m, tau^2), its members lie around
it with N(mu_g, sigma^2). What is known of a group: lengths of finished members, and of the others
that they are longer than what they have. Both go into the posterior of mu_g, on a fixed grid; its
mean and variance make a member's length log-normal again, which is then cut below at what the
member has and above at the limit. A few members are runaways (`runaways.py`). m, tau and sigma
come from the other groups of the same iteration, by expectation maximisation as requests finish.
# Paper silent: its estimate (the longest finished member) ignores running members.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from seer.scheduling.group_knowledge import Alike, Crowd, GroupKnowledge
from seer.scheduling.level_grid import Level, LevelGrid
from seer.scheduling.lognormal import expected_beyond, hazard, quantile_beyond
from seer.scheduling.runaways import (
    regular_share_beyond,
    regular_share_of_length,
    share_among_regular,
)
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
class _Sums:
    """What a fit needs of the groups."""

    groups: int = 0
    level: float = 0.0
    level_squared: float = 0.0
    residual: float = 0.0
    """Squared deviations of members from their group's level."""
    members: float = 0.0
    """Regular ones."""


class ConditionalEstimator:
    """Expected length given what is known. News of a group cost O(its members)."""

    def __init__(self) -> None:
        self._groups: dict[int, GroupKnowledge] = {}
        self._crowds: dict[Alike, Crowd] = {}
        self._apart: dict[int, None] = {}
        """Groups in no crowd."""
        self._grids: dict[float | None, LevelGrid] = {}
        """By prior; until the next fit."""
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
    def crowds(self) -> Mapping[Alike, Crowd]:
        """Groups of which hardly anything is known, and which are alike in that."""
        return self._crowds

    @property
    def groups_apart(self) -> Collection[int]:
        """The other groups that are not complete."""
        return self._apart

    def add_group(self, group: GroupSpec) -> None:
        """Nothing is known yet but the limit, and perhaps an earlier iteration."""
        prior = math.log(group.prior_tokens) if group.prior_tokens else None
        known = GroupKnowledge(group.max_tokens, prior)
        self._groups[group.group_id] = known
        self._join(group.group_id, known)
        if not self._num_finished:
            self._mean = math.log(group.max_tokens) - 1.0
            self._grids.clear()

    def progressed(self, request_id: RequestId, num_generated: int) -> bool:
        """The request is longer than this. Its siblings' estimates change if it has grown much."""
        group = self._groups[request_id.group]
        if not num_generated:
            return False
        self._leave(request_id.group, group)
        group.longer_than[request_id.member] = num_generated
        is_news = num_generated > RELEVANT_GROWTH * group.weighed.get(request_id.member, 0)
        if is_news:
            group.weighed[request_id.member] = num_generated
            group.conclusions.forget()
        self._join(request_id.group, group)
        return is_news

    def finished(self, request_id: RequestId, num_tokens: int) -> None:
        """One length more, or one more that the limit has cut."""
        group = self._groups[request_id.group]
        self._leave(request_id.group, group)
        if num_tokens >= group.max_tokens:
            group.longer_than[request_id.member] = num_tokens
        else:
            group.longer_than.pop(request_id.member, None)
            group.finished_logs.append(math.log(max(num_tokens, 1)))
        group.conclusions.forget()
        self._join(request_id.group, group)
        self._num_finished += 1
        if self._num_finished >= self._next_fit:
            self._next_fit = self._num_finished * REFIT_GROWTH
            self._fit()

    def remove_group(self, group_id: int) -> None:
        """Forget it, but for what it teaches about the others."""
        group = self._groups.pop(group_id, None)
        if group is None:
            return
        self._leave(group_id, group)
        if group.num_known:
            self._add_moments(self._past, group)

    def estimate(self, request_id: RequestId) -> float:
        """Expected tokens of an unfinished request."""
        group, least, mean, sigma = self._predictive(request_id)
        if least >= group.max_tokens:
            return float(group.max_tokens)
        regular = regular_share_beyond(_deviations(least, mean, sigma))
        expected = expected_beyond(mean, sigma, least, group.max_tokens)
        return regular * expected + (1 - regular) * group.max_tokens

    def quantile(self, request_id: RequestId, share: float) -> float:
        """Tokens that an unfinished request stays below with probability `share`."""
        group, least, mean, sigma = self._predictive(request_id)
        quantiles = group.conclusions.quantiles
        known = quantiles.get((least, share))
        if known is None:
            known = float(group.max_tokens)
            regular = regular_share_beyond(_deviations(least, mean, sigma))
            regular_share = share_among_regular(share, regular)
            if regular_share is not None:
                known = min(known, quantile_beyond(mean, sigma, least, regular_share))
            quantiles[least, share] = known
        return known

    def _predictive(self, request_id: RequestId) -> tuple[GroupKnowledge, int, float, float]:
        """Group, least length, and mean and deviation of the log length before that cut."""
        group = self._groups[request_id.group]
        level = self._level(group)
        sigma = math.sqrt(level.variance + self._sigma**2)
        return group, group.longer_than.get(request_id.member, 0), level.mean, sigma

    def _level(self, group: GroupKnowledge) -> Level:
        conclusions = group.conclusions
        if conclusions.level is None:
            conclusions.level = self._posterior(group)
        return conclusions.level

    def _posterior(self, group: GroupKnowledge) -> Level:
        grid = self._grids.get(group.prior_log)
        if grid is None:
            grid = LevelGrid(*self._group_prior(group), self._sigma)
            self._grids[group.prior_log] = grid
        return grid.level(group.finished_logs, list(group.longer_than.values()))

    def _group_prior(self, group: GroupKnowledge) -> tuple[float, float]:
        """Mean and deviation of mu_g before this iteration's members are looked at."""
        if group.prior_log is None:
            return self._mean, self._tau
        level = group.prior_log - self._sigma**2 / 2  # a mean length lies above the median
        precision = self._tau**-2 + PRIOR_SIGMA**-2
        mean = (self._mean * self._tau**-2 + level * PRIOR_SIGMA**-2) / precision
        return mean, precision**-0.5

    def _leave(self, group_id: int, group: GroupKnowledge) -> None:
        """A group goes its own way, with its own copy of what its crowd shares."""
        if group.crowd is None:
            self._apart.pop(group_id, None)
            return
        crowd = self._crowds[group.crowd]
        del crowd.group_ids[group_id]
        if not crowd.group_ids:
            del self._crowds[group.crowd]
        group.crowd = None
        group.conclusions = crowd.conclusions.copy()

    def _join(self, group_id: int, group: GroupKnowledge) -> None:
        """A group is put where it belongs by what is known of it now."""
        alike = group.alike()
        if alike is None:
            self._apart[group_id] = None
            return
        crowd = self._crowds.get(alike)
        if crowd is None:
            crowd = self._crowds[alike] = Crowd()
        crowd.group_ids[group_id] = None
        group.crowd = alike
        group.conclusions = crowd.conclusions

    def _fit(self) -> None:
        """One step of expectation maximisation over all groups that anything is known of."""
        sums = replace(self._past)
        for group_id in self._apart:
            self._add_moments(sums, self._groups[group_id])
        for alike, crowd in self._crowds.items():
            if alike.num_generated:
                group = self._groups[next(iter(crowd.group_ids))]
                self._add_moments(sums, group, len(crowd.group_ids))
        mean = sums.level / sums.groups
        variance = sums.level_squared / sums.groups - mean * mean
        self._mean = mean
        self._tau = math.sqrt(max(MIN_TAU**2, variance))
        self._sigma = math.sqrt(max(MIN_SIGMA**2, sums.residual / sums.members))
        self._grids.clear()
        self.num_fits += 1
        for group_id in self._apart:
            self._groups[group_id].conclusions.forget()
        for crowd in self._crowds.values():
            crowd.conclusions.forget()

    def _add_moments(self, sums: _Sums, group: GroupKnowledge, times: int = 1) -> None:
        """A member known only to be longer counts with the moments of the tail beyond."""
        level = self._level(group)
        sums.groups += times
        sums.level += times * level.mean
        sums.level_squared += times * (level.variance + level.mean**2)
        for length in group.finished_logs:
            weight = times * regular_share_of_length((length - level.mean) / self._sigma)
            sums.members += weight
            sums.residual += weight * ((length - level.mean) ** 2 + level.variance)
        for least in group.longer_than.values():
            z = max(_deviations(least, level.mean, self._sigma), _FAR_BELOW)
            weight = times * regular_share_beyond(z)
            sums.members += weight
            sums.residual += weight * (self._sigma**2 * (1 + z * hazard(z)) + level.variance)


def _deviations(length: int, mean: float, sigma: float) -> float:
    """How far a length lies from a mean log length."""
    return (math.log(length) - mean) / sigma if length else -math.inf
