"""Which nodes proved right, on drafts small enough to follow by hand."""

import numpy as np

from seer.drafting.outcomes import NodePlaces, accepted_nodes, known_outcomes
from seer.drafting.suffix_tree import Drafts


def _drafts(*each: tuple[list[int], list[int]]) -> Drafts:
    """Tokens and parents of each request."""
    tokens = [token for tokens, _ in each for token in tokens]
    return Drafts(
        token_ids=np.array(tokens, np.int32),
        parents=np.array([parent for _, parents in each for parent in parents], np.int32),
        probabilities=np.full(len(tokens), 0.5, np.float32),
        offsets=np.cumsum([0, *(len(tokens) for tokens, _ in each)]).astype(np.int32),
        match_lengths=np.full(len(each), 3, np.int32),
    )


CHAIN = ([0, 1, 2], [-1, 0, 1])
TREE = ([5, 6, 7, 8], [-1, -1, 1, 0])


def test_a_path_is_followed_through_a_tree() -> None:
    """The nodes of the true path are accepted, its siblings are not."""
    tokens, parents = (np.array(each, np.int32) for each in TREE)
    accepted = accepted_nodes(tokens, parents, np.array([6, 7, 9], np.int32))
    assert accepted.tolist() == [False, True, True, False]
    assert not accepted_nodes(tokens, parents, np.empty(0, np.int32)).any()


def test_places_of_chains_and_trees() -> None:
    """Depth counts from 1; parents are found among all nodes."""
    places = NodePlaces.of(_drafts(CHAIN, ([], []), TREE))
    assert places.owners.tolist() == [0, 0, 0, 2, 2, 2, 2]
    assert places.within.tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert places.above.tolist() == [7, 0, 1, 7, 7, 4, 3]
    assert places.depths.tolist() == [1, 2, 3, 1, 1, 2, 2]


def test_what_comes_judges_nodes_that_were_not_verified() -> None:
    """Children of the text and of verified nodes are known; those behind them are not."""
    for verified, tokens, known, right in [
        (0, [0], 1, 1),
        (0, [9], 1, 0),
        (1, [0, 1], 2, 2),
        (1, [0, 9], 2, 1),
        (1, [9], 2, 0),
        (3, [0, 1, 2, 9], 3, 3),
        (1, [], 0, 0),
    ]:
        found, accepted = known_outcomes(_drafts(CHAIN), np.array([verified], np.int32), [tokens])
        assert found.tolist() == [known]
        assert accepted.tolist() == [place < right for place in range(3)]


def test_an_unverified_sibling_is_judged_too() -> None:
    """In a tree all forks at the text are known, up to the first node that hangs on one of them."""
    known, accepted = known_outcomes(_drafts(TREE), np.array([1], np.int32), [[6]])
    assert known.tolist() == [2]
    assert accepted.tolist() == [False, True, False, False]


def test_requests_are_judged_by_their_own_tokens() -> None:
    """Of several requests, some without a draft or without new tokens."""
    drafts = _drafts(CHAIN, ([], []), TREE, CHAIN)
    known, accepted = known_outcomes(
        drafts, np.array([3, 0, 4, 0], np.int32), [[0, 1, 5], [4], [6, 7, 1], []]
    )
    assert known.tolist() == [3, 0, 4, 0]
    assert np.flatnonzero(accepted).tolist() == [0, 1, 4, 5]
