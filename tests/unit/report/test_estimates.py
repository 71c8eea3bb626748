import math
from collections.abc import Callable

import numpy as np
import pytest

from seer.report.estimates import spearman, track_estimates
from seer.report.timeline import Timeline
from seer.types import GroupSpec, RequestId
from support.scenario import Faults, Outcome


class Notebook:
    """An estimator that says what a request has, and notes all that it is told."""

    def __init__(self) -> None:
        self.members: dict[RequestId, int] = {}
        self.finished_with: dict[RequestId, int] = {}
        self.removed: list[int] = []

    def add_group(self, group: GroupSpec) -> None:
        for member in range(group.group_size):
            self.members[RequestId(group.group_id, member)] = 0

    def progressed(self, request_id: RequestId, num_generated: int) -> None:
        assert num_generated >= self.members[request_id]
        self.members[request_id] = num_generated

    def finished(self, request_id: RequestId, num_tokens: int) -> None:
        del self.members[request_id]
        self.finished_with[request_id] = num_tokens

    def remove_group(self, group_id: int) -> None:
        assert not [each for each in self.members if each.group == group_id]
        self.removed.append(group_id)

    def estimate(self, request_id: RequestId) -> float:
        return float(self.members[request_id])


@pytest.mark.parametrize("policy", ["divided", "interleaved"])
def test_the_estimator_hears_what_a_scheduler_hears(
    outcome: Callable[..., Outcome], timeline: Callable[..., Timeline], policy: str
) -> None:
    """Every request ends with its true length, every group is removed once."""
    done = outcome(policy, 2, Faults())
    notes = Notebook()
    checkpoints = track_estimates(timeline(done.records, policy), notes, [0.5, 1.0])
    assert notes.finished_with == done.num_generated
    assert sorted(notes.removed) == sorted(set(notes.removed)) == list(range(6))
    half, whole = checkpoints
    assert len(half.truths) <= 12
    assert (half.estimates <= half.truths).all()
    assert half.mean_error_tokens == pytest.approx(np.mean(half.truths - half.estimates))
    assert math.isnan(whole.mean_error_tokens)
    assert half.time_s < whole.time_s


def test_cancelled_requests_do_not_count(
    outcome: Callable[..., Outcome], timeline: Callable[..., Timeline]
) -> None:
    """Nobody knows how long they would have been; shares that are not reached are left out."""
    made = timeline(outcome("divided", 0, Faults(cancel=0.2)).records)
    assert made.requests.is_cancelled.any()
    notes = Notebook()
    checkpoints = track_estimates(made, notes, [0.01, 1.0])
    known = int(made.requests.has_length.sum())
    assert [c.share for c in checkpoints] == ([0.01] if known else [])
    assert all(len(c.truths) < known for c in checkpoints)


def test_rank_correlation() -> None:
    """Ties share their mean rank; too little to rank is not a number."""
    first, second = np.array([1.0, 2.0, 2.0, 4.0]), np.array([10.0, 30.0, 20.0, 40.0])
    assert spearman(first, second) == pytest.approx(0.9486832980505138)
    assert spearman(first, -first) == pytest.approx(-1.0)
    assert math.isnan(spearman(first, np.ones(4)))
    assert math.isnan(spearman(first[:2], second[:2]))
