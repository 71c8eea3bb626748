"""What speculative decoding came to, summed over the chunks that have ended."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from seer.rollout.events import ChunkFinished


@dataclass(slots=True)
class DraftTotals:
    """Sums over ended chunks."""

    drafted: int = 0
    """Guesses that were verified."""
    accepted: int = 0
    decode_steps: int = 0
    """Steps, each counted for every request that drew a token in it."""
    stepped_tokens: int = 0
    """Output tokens of chunks whose decode steps were counted."""
    step_s: float = 0.0
    draft_s: float = 0.0
    drafted_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)

    def add(self, event: ChunkFinished) -> None:
        """Count a chunk."""
        stats, load = event.stats, event.load
        self.drafted += stats.num_drafted
        self.accepted += stats.num_accepted
        self.decode_steps += stats.num_decode_steps
        if stats.num_decode_steps:
            self.stepped_tokens += event.num_tokens
        self.step_s += load.step_s
        self.draft_s += load.draft_s
        if stats.drafted_by_position:
            self.drafted_by_position = _sum(self.drafted_by_position, stats.drafted_by_position)
            self.accepted_by_position = _sum(self.accepted_by_position, stats.accepted_by_position)

    @property
    def acceptance_length(self) -> float:
        """Tokens a request gained by a decode step; 0 where none was counted."""
        return self.stepped_tokens / self.decode_steps if self.decode_steps else 0.0

    @property
    def acceptance_by_position(self) -> tuple[float, ...]:
        """Of the drafts that reached a position, the share accepted up to it."""
        pairs = zip(self.accepted_by_position, self.drafted_by_position, strict=True)
        return tuple(round(accepted / drafted, 4) for accepted, drafted in pairs)

    @property
    def time_share(self) -> float:
        """Part of the instances' step time that went into drafting."""
        return self.draft_s / self.step_s if self.step_s else 0.0


def _sum(a: Iterable[int], b: Iterable[int]) -> list[int]:
    return [x + y for x, y in zip_longest(a, b, fillvalue=0)]
