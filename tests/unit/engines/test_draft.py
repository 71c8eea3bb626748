"""Drafts as a step verifies them: chains and trees."""

import pytest

from seer.engines.serving.draft import NO_DRAFT, ROOT, Draft, chain

#          text -> 5 -> 6 -> 8
#                    -> 7
#               -> 9
TREE = Draft([5, 6, 7, 9, 8], [ROOT, 0, 0, ROOT, 1])


def test_depths_are_places_behind_the_text() -> None:
    """A node lies one place behind its parent."""
    assert TREE.depths == [1, 2, 2, 1, 3]
    assert chain([4, 4, 4]).depths == [1, 2, 3]


def test_chains_are_told_from_trees() -> None:
    """A draft is a chain when every node follows the one before it; an empty one is."""
    assert chain([4, 5]).is_chain
    assert NO_DRAFT.is_chain
    assert Draft([4, 5], [ROOT, 0]).is_chain
    assert not TREE.is_chain


def test_child_is_found_by_parent_and_token() -> None:
    """A token is looked for among the children of one node only."""
    assert TREE.child(ROOT, 9) == 3
    assert TREE.child(0, 7) == 2
    assert TREE.child(0, 8) is None
    assert TREE.child(1, 8) == 4
    assert TREE.child(4, 5) is None


@pytest.mark.parametrize(("count", "kept"), [(-1, 0), (0, 0), (3, 3), (5, 5), (9, 5)])
def test_first_nodes(count: int, kept: int) -> None:
    """As many nodes as asked for and there; none for a count below 1."""
    assert TREE.first(count).token_ids == TREE.token_ids[:kept] or kept == 0
    assert len(TREE.first(count)) == kept


@pytest.mark.parametrize(("depth", "kept"), [(0, 0), (1, 1), (2, 4), (3, 5), (7, 5)])
def test_nodes_too_deep_are_cut_with_what_follows(depth: int, kept: int) -> None:
    """What is left comes before the first node that lies too deep."""
    assert len(TREE.within(depth)) == kept
