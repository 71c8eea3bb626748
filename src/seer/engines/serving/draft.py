"""A draft of one request as a step verifies it: guessed tokens that form a chain or a tree."""

from collections.abc import Sequence
from dataclasses import dataclass

ROOT = -1
"""Parent of a node that follows the request's text."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Guesses, each after its parent: the text so far or an earlier guess. Empty: none."""

    token_ids: Sequence[int] = ()
    parents: Sequence[int] = ()
    """Index of each node's parent, always a smaller one; ROOT: it follows the text."""

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def is_chain(self) -> bool:
        """Whether every node follows the one before it."""
        return list(self.parents) == list(range(ROOT, len(self.parents) - 1))

    @property
    def depths(self) -> list[int]:
        """Places of the nodes behind the text, from 1."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return depths

    def first(self, count: int) -> "Draft":
        """Its first nodes, `count` at most."""
        if count >= len(self):
            return self
        return Draft(self.token_ids[:count], self.parents[:count]) if count > 0 else NO_DRAFT

    def within(self, max_depth: int) -> "Draft":
        """Its nodes before the first one that lies deeper than `max_depth`."""
        depths = self.depths
        return self.first(next((i for i, d in enumerate(depths) if d > max_depth), len(depths)))

    def child(self, parent: int, token_id: int) -> int | None:
        """The node that guesses `token_id` after `parent`, if there is one."""
        for node in range(parent + 1, len(self)):
            if self.parents[node] == parent and self.token_ids[node] == token_id:
                return node
        return None


NO_DRAFT = Draft()


def chain(token_ids: Sequence[int]) -> Draft:
    """Guesses that follow one another."""
    return Draft(token_ids, range(ROOT, len(token_ids) - 1))
