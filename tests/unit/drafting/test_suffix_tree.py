"""The suffix tree of a group and drafts from it, on texts small enough to read."""

import threading

import numpy as np
import pytest

from seer.drafting.suffix_tree import DraftSettings, SuffixTree, speculate_batch
from seer.errors import InvalidInput

PLAIN = DraftSettings(min_probability=0.0, recency_weight=0.0, own_weight=0.0)


def test_a_sibling_is_copied() -> None:
    """A request whose text stands in a sibling is drafted the sibling's continuation."""
    tree = SuffixTree()
    tree.append(0, 0, list(range(20)))
    cursor = tree.cursor(1)
    tree.append(1, 0, [3, 4, 5])
    drafts = speculate_batch([cursor], 4, PLAIN)
    assert cursor.match_length == 3
    assert drafts.token_ids.tolist() == [6, 7, 8, 9]
    assert drafts.parents.tolist() == [-1, 0, 1, 2]
    assert drafts.match_lengths.tolist() == [3]


def test_counts_are_right_after_an_append() -> None:
    """A token counts as soon as it is appended, and a context is followed in every sequence."""
    tree = SuffixTree()
    tree.append(0, 0, [1, 2, 3])
    tree.append(1, 0, [1, 2])
    assert tree.count([1, 2], 3) == 1
    tree.append(1, 2, [3])
    assert (tree.count([1, 2], 3), tree.count([], 3), tree.count([2], 1)) == (2, 2, 0)


def test_appends_are_idempotent() -> None:
    """Tokens that the tree has are passed over, whole or in part."""
    tree = SuffixTree()
    assert tree.append(7, 0, [1, 2, 3]) == 3
    assert tree.append(7, 0, [1, 2, 3]) == 3
    assert tree.append(7, 1, [2, 3, 4, 5]) == 5
    assert tree.append(7, 5, []) == 5
    assert tree.count([1], 2) == 1
    assert tree.count([4], 5) == 1


def test_a_gap_is_refused() -> None:
    """Tokens whose predecessors are missing change nothing."""
    tree = SuffixTree()
    tree.append(0, 0, [1])
    with pytest.raises(InvalidInput, match="prev_num_tokens"):
        tree.append(0, 2, [3])
    with pytest.raises(InvalidInput, match="prev_num_tokens"):
        tree.append(1, 1, [3])
    with pytest.raises(InvalidInput, match="prev_num_tokens"):
        tree.append(0, -1, [3])
    assert (tree.num_tokens, tree.num_sequences) == (1, 1)


@pytest.mark.parametrize("bad", [[-1], [2**31], [1.5], [[1]], np.array([3, -3], np.int32)])
def test_bad_tokens_are_refused(bad: list[int]) -> None:
    """Only flat lists of ids from 0 to 2^31 - 1 are tokens."""
    tree = SuffixTree()
    with pytest.raises(InvalidInput, match="token_ids"):
        tree.append(0, 0, bad)
    with pytest.raises(InvalidInput, match="token_ids"):
        tree.set_prompt(bad)
    assert tree.num_tokens == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_arrays_of_any_integers_are_tokens(dtype: type[np.integer]) -> None:
    """An array counts as its numbers, contiguous or not."""
    tree = SuffixTree()
    tree.append(0, 0, np.array([5, 0, 6, 0, 7, 0], dtype)[::2])
    assert (tree.count([5], 6), tree.count([6], 7)) == (1, 1)


def test_prompt_is_part_of_every_text() -> None:
    """The prompt is matched, across its end too, and counts by its weight, not by the members."""
    tree = SuffixTree()
    tree.set_prompt([1, 2, 3, 1], weight=3)
    cursors = [tree.cursor(0), tree.cursor(1)]
    assert [cursor.match_length for cursor in cursors] == [1, 1]
    tree.append(0, 0, [2])
    assert [cursor.match_length for cursor in cursors] == [2, 4]  # [1, 2], and all of the prompt
    assert (tree.count([1], 2), tree.count([2], 3)) == (4, 3)


def test_prompt_comes_first_and_once() -> None:
    """A second prompt, and one after a sequence, are refused."""
    tree = SuffixTree()
    tree.set_prompt([1])
    with pytest.raises(InvalidInput, match="once"):
        tree.set_prompt([1])
    late = SuffixTree()
    late.cursor(0)
    with pytest.raises(InvalidInput, match="first sequence"):
        late.set_prompt([1])


def test_a_lone_sequence_matches_itself() -> None:
    """A group of one is drafted from its own history."""
    tree = SuffixTree()
    cursor = tree.cursor(0)
    tree.append(0, 0, [1, 2, 3, 4, 9, 1, 2])
    assert speculate_batch([cursor], 2, PLAIN).token_ids.tolist() == [3, 4]


def test_match_length_stops_at_the_depth() -> None:
    """A loop longer than max_depth is matched to max_depth."""
    tree = SuffixTree(max_depth=5)
    cursor = tree.cursor(0)
    tree.append(0, 0, [1, 2] * 50)
    assert cursor.match_length == 5
    assert speculate_batch([cursor], 8, PLAIN).token_ids.tolist() == [1, 2] * 4
    tree.check_integrity()


def test_a_tree_takes_the_best_nodes() -> None:
    """A fork has top_k children at most, the budget goes to the likeliest nodes."""
    tree = SuffixTree()
    for member, output in enumerate([[1, 2, 3]] * 8 + [[1, 5, 6]] * 3 + [[1, 7, 8]] * 2):
        tree.append(member, 0, output)
    cursor = tree.cursor(99)
    tree.append(99, 0, [1])
    settings = DraftSettings(top_k=2, min_probability=0.0, recency_weight=0, own_weight=0)
    drafts = speculate_batch([cursor], 3, settings)
    assert drafts.token_ids.tolist() == [2, 3, 5]
    assert drafts.parents.tolist() == [-1, 0, -1]
    assert sorted(drafts.probabilities.tolist(), reverse=True) == drafts.probabilities.tolist()


def test_evidence_raises_the_estimate() -> None:
    """A continuation seen more often, or after a longer match, is estimated likelier."""
    estimates = []
    for copies, length in [(1, 1), (3, 1), (3, 4), (3, 12)]:
        tree = SuffixTree()
        for member in range(copies):
            tree.append(member, 0, [100 + member, *range(50)])
        cursor = tree.cursor(9)
        tree.append(9, 0, [200, *range(20 - length, 20)])
        estimates.append(float(speculate_batch([cursor], 1, PLAIN).probabilities[0]))
    assert estimates == sorted(estimates)
    assert 0 < estimates[0] < estimates[-1] < 1


def test_recency_decides_between_equals() -> None:
    """Of two continuations as frequent, the later one is drafted where recency weighs."""
    tree = SuffixTree()
    tree.append(0, 0, [1, 2, 9, 1, 3, 9])
    cursor = tree.cursor(1)
    tree.append(1, 0, [1])
    recent = DraftSettings(recency_weight=0.5, own_weight=0)
    assert speculate_batch([cursor], 1, PLAIN).token_ids.tolist() == [2]
    assert speculate_batch([cursor], 1, recent).token_ids.tolist() == [3]


def test_own_sequence_decides_between_equals() -> None:
    """Of two continuations as frequent, the request's own is drafted where that weighs."""
    tree = SuffixTree()
    tree.append(0, 0, [5, 6, 7, 1])
    early, late = tree.cursor(1), tree.cursor(2)
    tree.append(1, 0, [5, 6, 7, 2, 5, 6, 7])
    tree.append(2, 0, [5, 6, 7])
    own = DraftSettings(recency_weight=0, own_weight=0.5)
    assert speculate_batch([early, late], 1, PLAIN).token_ids.tolist() == [1, 1]
    assert speculate_batch([early, late], 1, own).token_ids.tolist() == [2, 1]


def test_min_probability_ends_a_draft() -> None:
    """No node below the threshold is drafted, however large the budget."""
    tree = SuffixTree()
    tree.append(0, 0, list(range(100)))
    cursor = tree.cursor(1)
    tree.append(1, 0, list(range(10)))
    drafts = speculate_batch([cursor], 64, DraftSettings(min_probability=0.3))
    assert 0 < len(drafts.token_ids) < 64
    assert drafts.probabilities.min() >= np.float32(0.3)


def test_a_batch_is_drafted_request_by_request() -> None:
    """Requests of several groups, each with its own budget, in one call."""
    first, second = SuffixTree(), SuffixTree()
    first.append(0, 0, [1, 2, 3, 4])
    second.append(0, 0, [1, 5, 6, 7])
    cursors = [first.cursor(1), second.cursor(1), second.cursor(2)]
    for tree in (first, second):
        tree.append(1, 0, [1])
    drafts = speculate_batch(cursors, np.array([2, 1, 9], np.int32), PLAIN)
    assert [drafts.token_ids[drafts.nodes(i)].tolist() for i in range(3)] == [[2, 3], [5], []]
    assert drafts.match_lengths.tolist() == [1, 1, 0]
    empty = speculate_batch([], 4)
    assert (len(empty.token_ids), empty.offsets.tolist()) == (0, [0])


def test_bad_settings_are_refused() -> None:
    """Bounds of the tree, the drafts and the budgets are checked."""
    cursor = SuffixTree().cursor(0)
    for make in (
        lambda: SuffixTree(max_depth=0),
        lambda: SuffixTree().set_prompt([1], weight=0),
        lambda: DraftSettings(top_k=0),
        lambda: DraftSettings(min_probability=1.5),
        lambda: DraftSettings(recency_weight=-1),
        lambda: DraftSettings(own_weight=float("inf")),
        lambda: speculate_batch([cursor], -1),
        lambda: speculate_batch([cursor], np.array([1, 1], np.int32)),
    ):
        with pytest.raises(InvalidInput):
            make()


def test_a_cursor_keeps_its_tree() -> None:
    """A tree lives as long as a cursor of it."""
    tree = SuffixTree()
    cursor = tree.cursor(0)
    tree.append(0, 0, [1, 2, 1])
    del tree
    assert cursor.match_length == 1


def test_memory_is_reported() -> None:
    """Memory grows with the tokens, well under 200 bytes a token."""
    tree = SuffixTree()
    empty = tree.memory_usage
    tree.append(0, 0, np.random.default_rng(0).integers(0, 1000, 20_000))
    assert 20_000 * 4 < tree.memory_usage - empty < 20_000 * 200


def test_threads_share_a_tree() -> None:
    """Appends and drafts from several threads leave a whole tree."""
    tree = SuffixTree()
    cursors = [tree.cursor(member) for member in range(4)]
    outputs = np.random.default_rng(1).integers(0, 8, (4, 400)).astype(np.int32)

    def grow(member: int) -> None:
        for start in range(0, 400, 5):
            tree.append(member, start, outputs[member, start : start + 5])
            speculate_batch(cursors, 4)

    threads = [threading.Thread(target=grow, args=(member,)) for member in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tree.num_tokens == 1600
    tree.check_integrity()
