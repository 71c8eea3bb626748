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

from seer.scheduling.lognormal import expected_beyond, hazard, quantile_beyond, survival
from seer.types import GroupSpec, RequestId

GRID = tuple(3 * i / 8 for i in range(-8, 9))
"""Points of the posterior, in prior standard deviations around the prior mean."""
PRIOR_SIGMA = 0.3
"""Standard deviation of a log mean length from an earlier iteration, as evidence about mu_g."""
START_TAU, START_SIGMA = 0.8, 0.5
MIN_TAU, MIN_SIGMA = 0.1, 0.1
REFIT_GROWTH = 1.25
"""m, tau, sigma are fitted again when so many times more requests are finished."""
RELEVANT_GROWTH = 1.1
"""A member under way that has grown by less tells hardly more of its group than before."""
_FAR_BELOW = -6.0
_NEVER = 1e-300
"""In place of a probability that underflows, before its log is taken."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Posterior of mu_g."""

    mean: float
    variance: float


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
    level: _Level | None = None
    """None: to be computed."""

    @property
    def num_known(self) -> int:
        """Members that anything is known of."""
        return len(self.finished_logs) + len(self.longer_than)


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

    def progressed(self, request_id: RequestId, num_generated: int) -> None:
        """The request is longer than this."""
        group = self._groups[request_id.group]
        if not num_generated:
            return
        group.longer_than[request_id.member] = num_generated
        if num_generated > RELEVANT_GROWTH * group.weighed.get(request_id.member, 0):
            group.weighed[request_id.member] = num_generated
            group.level = None

    def finished(self, request_id: RequestId, num_tokens: int) -> None:
        """One length more, or one more that the limit has cut."""
        group = self._groups[request_id.group]
        if num_tokens >= group.max_tokens:
            group.longer_than[request_id.member] = num_tokens
        else:
            group.longer_than.pop(request_id.member, None)
            group.finished_logs.append(math.log(max(num_tokens, 1)))
        group.level = None
        self._num_finished += 1
        if self._num_finished >= self._next_fit:
            self._next_fit = self._num_finished * REFIT_GROWTH
            self._fit()

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
        return min(quantile_beyond(mean, sigma, least, share), float(group.max_tokens))

    def _predictive(self, request_id: RequestId) -> tuple[_Group, int, float, float]:
        """Group, least length, and mean and deviation of the log length before that cut."""
        group = self._groups[request_id.group]
        level = self._level(group)
        sigma = math.sqrt(level.variance + self._sigma**2)
        return group, group.longer_than.get(request_id.member, 0), level.mean, sigma

    def _level(self, group: _Group) -> _Level:
        if group.level is None:
            group.level = self._posterior(group)
        return group.level

    def _posterior(self, group: _Group) -> _Level:
        centre, spread = self._group_prior(group)
        if not group.num_known:
            return _Level(centre, spread**2)
        sigma = self._sigma
        bounds = [math.log(least) for least in group.longer_than.values()]
        points = []
        for step in GRID:
            mu = centre + spread * step
            log_weight = -step * step / 2
            for length in group.finished_logs:
                log_weight -= ((length - mu) / sigma) ** 2 / 2
            for bound in bounds:
                log_weight += math.log(survival((bound - mu) / sigma) + _NEVER)
            points.append((mu, log_weight))
        return _moments(points)

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
        self.num_fits += 1
        for group in self._groups.values():
            group.level = None

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
            z = max((math.log(least) - level.mean) / self._sigma, _FAR_BELOW)
            sums.residual += self._sigma**2 * (1 + z * hazard(z))


def _moments(points: list[tuple[float, float]]) -> _Level:
    """Mean and variance of points with log weights."""
    highest = max(log_weight for _, log_weight in points)
    total = mean = square = 0.0
    for mu, log_weight in points:
        weight = math.exp(log_weight - highest)
        total += weight
        mean += weight * mu
        square += weight * mu * mu
    mean /= total
    return _Level(mean, max(0.0, square / total - mean * mean))
