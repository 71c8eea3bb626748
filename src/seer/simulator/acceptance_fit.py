"""How often drafts were right in a real rollout, as the simulator's `Acceptance`.

Chunks are sorted by how many siblings of their request were finished when they ended, as finished
siblings are what the simulator's drafts depend on.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from seer.errors import InvalidInput
from seer.rollout.events import ChunkFinished, FinishRequest
from seer.rollout.trace import TraceRecord
from seer.simulator.speculation import REFERENCE_DRAFT, Acceptance, acceptance_length
from seer.types import ChunkStats

BUCKETS = (0, 1, 2, 4, 8)
"""Least number of finished siblings of each bucket."""
MIN_TRIALS = 100
"""Guesses below which a bucket is joined with the next."""


@dataclass(frozen=True, slots=True)
class _Guesses:
    """Guesses at single places, each made after right ones only."""

    num_trials: int = 0
    num_right: int = 0
    siblings: int = 0
    """Finished siblings, summed over trials."""

    def __add__(self, other: "_Guesses") -> "_Guesses":
        return _Guesses(
            self.num_trials + other.num_trials,
            self.num_right + other.num_right,
            self.siblings + other.siblings,
        )


def fit_acceptance(records: Iterable[TraceRecord], name: str = "trace") -> Acceptance:
    """The acceptance of a rollout with drafts; `name` is what an error calls its trace.

    The probability of one place is the share of right guesses over all places (section 3.4.1 of the
    paper has one probability for all of them), for 0, 1, 2-3, 4-7 and 8 or more finished siblings.
    A row is given at the mean number of its bucket; buckets with few guesses are joined. Rows are
    what the trace says: more siblings may come out lower, by chance or by what the drafts were.

    What counts as a trial of place k: a step in which all before were right and the draft reached
    k. A chunk counts the two apart, so the lesser is taken, which is the most it can have been. A
    step without any draft is no trial: where trees often have nothing to say, a forecast is too
    fast. Raises InvalidInput when the trace has no drafts.
    """
    found = _count(records)
    if not found:
        allowed = "allowed: a trace of a rollout with drafts (seer rollout --drafting)"
        raise InvalidInput("acceptance", name, allowed)
    buckets = _join_thin([_sum(found, low, high) for low, high in pairwise((*BUCKETS, math.inf))])
    row = {
        round(each.siblings / each.num_trials): acceptance_length(
            each.num_right / each.num_trials, REFERENCE_DRAFT
        )
        for each in buckets
    }
    return Acceptance(lengths={1: row})


def _count(records: Iterable[TraceRecord]) -> dict[int, _Guesses]:
    """Guesses by number of finished siblings; empty: there were none."""
    found: dict[int, _Guesses] = {}
    finished: Counter[int] = Counter()
    for record in records:
        event = record.event
        if isinstance(event, ChunkFinished):
            siblings = finished[event.request_id.group]
            guesses = _guesses(event.stats, siblings)
            if guesses.num_trials:
                found[siblings] = found.get(siblings, _Guesses()) + guesses
        for action in record.actions:
            if isinstance(action, FinishRequest):
                finished[action.request_id.group] += 1
    return found


def _guesses(stats: ChunkStats, siblings: int) -> _Guesses:
    """Trials of a chunk: at the first place every draft is one, at others see `fit_acceptance`."""
    drafted, accepted = stats.drafted_by_position, stats.accepted_by_position
    got_there = (*drafted[:1], *accepted)
    trials = sum(min(pair) for pair in zip(got_there, drafted, strict=False))
    return _Guesses(trials, sum(accepted), siblings * trials)


def _sum(found: dict[int, _Guesses], low: float, high: float) -> _Guesses:
    inside = [each for n, each in found.items() if low <= n < high]
    return sum(inside, start=_Guesses())


def _join_thin(buckets: Sequence[_Guesses]) -> list[_Guesses]:
    """Neighbours put together until each has enough, or one is left."""
    joined: list[_Guesses] = []
    rest = _Guesses()
    for bucket in buckets:
        rest += bucket
        if rest.num_trials >= MIN_TRIALS:
            joined.append(rest)
            rest = _Guesses()
    if rest.num_trials:
        joined.append(joined.pop() + rest if joined else rest)
    return joined
