"""Which nodes of a step's drafts proved right, verified or not. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seer.drafting.suffix_tree import Drafts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlaces:
    """Where the N nodes of a batch's drafts are."""

    owners: NDArray[np.int64]
    """(N,) request of each node."""
    within: NDArray[np.int64]
    """(N,) index among the request's own nodes."""
    above: NDArray[np.int64]
    """(N,) the parent's index among all nodes; N: the text."""
    depths: NDArray[np.int64]
    """(N,) draft position, from 1."""

    @classmethod
    def of(cls, drafts: Drafts) -> Self:
        """The places of these nodes."""
        sizes = np.diff(drafts.offsets)
        size = len(drafts.parents)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        starts = drafts.offsets[owners]
        within = np.arange(size) - starts
        above = np.where(drafts.parents < 0, size, starts + drafts.parents)
        is_chains = bool((drafts.parents == within - 1).all())
        depths = within + 1 if is_chains else _depths(above)
        return cls(owners=owners, within=within, above=above, depths=depths)


def known_outcomes(
    drafts: Drafts, verified: NDArray[np.int32], new_tokens: Sequence[Sequence[int]]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """What a step shows of its drafts, beyond what it verified.

    The tokens that came also say whether a node would have been accepted that was not verified but
    follows the text or a verified node. Nodes further behind are left out whatever became of them:
    they would be known only where they failed. Where no token came, nothing is known.

    # Paper silent: how beta is measured of what is not verified, or while nothing is.

    Args:
        drafts: Of B requests, N nodes.
        verified: (B,) nodes of each request that were verified, its first ones.
        new_tokens: B lists, what each request has generated in the step.

    Returns:
        (B,) nodes of each request that are known, its first ones, and (N,) whether each is accepted
        (False where unknown): as `AcceptanceStatistics.observe` takes them.
    """
    places = NodePlaces.of(drafts)
    owners, size = places.owners, len(places.owners)
    behind = np.flatnonzero(drafts.parents >= verified[owners])
    known = np.diff(drafts.offsets)
    np.minimum.at(known, owners[behind], places.within[behind].astype(np.int32))

    lengths = np.array([len(tokens) for tokens in new_tokens], np.int64)
    known[lengths == 0] = 0
    text = np.fromiter(chain.from_iterable(new_tokens), np.int32, int(lengths.sum()))
    came = np.flatnonzero((places.within < known[owners]) & (places.depths <= lengths[owners]))
    starts = np.cumsum(lengths) - lengths
    is_hit = np.zeros(size, np.bool_)
    is_hit[came] = drafts.token_ids[came] == text[starts[owners[came]] + places.depths[came] - 1]

    accepted = np.zeros(size + 1, np.bool_)
    accepted[size] = True  # stands for the text
    while True:  # one place further each time, down the only path of each request
        further = is_hit & accepted[places.above]
        if (further == accepted[:size]).all():
            return known, further
        accepted[:size] = further


def accepted_nodes(
    token_ids: NDArray[np.int32], parents: NDArray[np.int32], truth: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """(n,) which of one request's n nodes are accepted when the text goes on as `truth`."""
    accepted = np.zeros(len(token_ids), np.bool_)
    node, depth = -1, 0
    for i, (token, parent) in enumerate(zip(token_ids.tolist(), parents.tolist(), strict=True)):
        if depth < len(truth) and parent == node and token == truth[depth]:
            accepted[i] = True
            node, depth = i, depth + 1
    return accepted


def _depths(above: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) draft position of nodes that stand after their parents, from 1."""
    depths: list[int] = []
    for parent in above.tolist():
        depths.append(1 if parent == len(above) else depths[parent] + 1)
    return np.array(depths, np.int64)
