"""Length estimates against the truth: what an estimator says while a trace goes on.

The estimator is told what a scheduler would have told it, in the same order. When a given share of
the requests is finished, it is asked for every request that is not; their true lengths are known
from the whole trace. Cancelled requests and those that the trace leaves unfinished have none and do
not count.
"""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seer.report.series import FloatArray
from seer.report.timeline import Timeline
from seer.scheduling.length_estimates import LengthEstimator

MIN_RANKED = 3
"""Fewer requests than this have no rank correlation."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """Estimates at one moment."""

    share: float
    """Of the requests that were finished."""
    time_s: float
    estimates: FloatArray
    """Expected tokens of each unfinished request."""
    truths: FloatArray
    """What they came to."""

    @property
    def mean_error_tokens(self) -> float:
        """Mean absolute error; NaN when nothing is unfinished."""
        if not len(self.truths):
            return math.nan
        return float(np.mean(np.abs(self.estimates - self.truths)))

    @property
    def rank_correlation(self) -> float:
        """Spearman's; NaN for too few requests, or when all estimates are equal."""
        return spearman(self.estimates, self.truths)


def track_estimates(
    timeline: Timeline, estimator: LengthEstimator, shares: Sequence[float]
) -> list[Checkpoint]:
    """Checkpoints when these shares (ascending) of all requests are finished, as far as they are.

    The estimator must be new.
    """
    session = _Session(timeline, estimator)
    checkpoints = []
    for share in shares:
        target = max(1, math.ceil(share * len(timeline.requests)))
        if not session.run_until_finished(target):
            break
        checkpoints.append(session.ask(share))
    return checkpoints


class _Session:
    """Plays a trace's submissions, progress and ends to an estimator."""

    def __init__(self, timeline: Timeline, estimator: LengthEstimator) -> None:
        self._timeline = timeline
        self._estimator = estimator
        self._generated = np.zeros(len(timeline.requests), dtype=np.int64)
        self._coming = deque(timeline.submissions)
        self._known = 0
        """Requests submitted so far: the first rows."""
        self._left: Counter[int] = Counter()
        self._done = np.zeros(len(timeline.requests), dtype=np.bool_)
        self._num_done = 0
        self._next = 0

    def run_until_finished(self, count: int) -> bool:
        """Play until so many requests are finished; False when the trace ends before."""
        while self._num_done < count and self._next < len(self._timeline.chunks):
            self._submit()
            self._play_chunk()
        return self._num_done >= count

    def ask(self, share: float) -> Checkpoint:
        """Estimates of all that are submitted, unfinished, and of known length."""
        requests = self._timeline.requests
        is_asked = requests.has_length & ~self._done
        is_asked[self._known :] = False
        rows = np.flatnonzero(is_asked)
        estimates = [self._estimator.estimate(requests.id_of(row)) for row in rows.tolist()]
        return Checkpoint(
            share=share,
            time_s=float(self._timeline.chunks.end_s[self._next - 1]),
            estimates=np.array(estimates, dtype=np.float64),
            truths=requests.num_tokens[rows].astype(np.float64),
        )

    def _submit(self) -> None:
        while self._coming and self._coming[0].num_chunks_before <= self._next:
            spec = self._coming.popleft().spec
            self._estimator.add_group(spec)
            self._left[spec.group_id] = spec.group_size
            self._known += spec.group_size

    def _play_chunk(self) -> None:
        chunks, requests = self._timeline.chunks, self._timeline.requests
        row = int(chunks.request[self._next])
        request_id = requests.id_of(row)
        self._generated[row] += chunks.num_tokens[self._next]
        num_generated = int(self._generated[row])
        if not chunks.is_last[self._next]:
            self._estimator.progressed(request_id, num_generated)
        elif not requests.is_cancelled[row]:
            self._estimator.finished(request_id, num_generated)
            self._done[row] = True
            self._num_done += 1
            self._left[request_id.group] -= 1
            if not self._left[request_id.group]:
                self._estimator.remove_group(request_id.group)
        self._next += 1


def spearman(first: FloatArray, second: FloatArray) -> float:
    """Spearman's rank correlation, ties with their mean rank; NaN where it is not defined."""
    if len(first) < MIN_RANKED or np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 0, equal values with the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: FloatArray = (last - (counts + 1) / 2)[inverse]
    return ranks
