"""Hash chains over tokens."""

from seer.kvpool.keys import KEY_BYTES, chain_keys

GOLDEN = "a898a2ba828e4c07c807d52cc60151db"


def test_one_key_a_block_partial_one_included() -> None:
    """10 tokens in blocks of 4 are three blocks; none are none."""
    keys = chain_keys(range(10), 4, b"salt")
    assert [len(key) for key in keys] == [KEY_BYTES] * 3
    assert chain_keys([], 4, b"salt") == []


def test_a_common_prefix_has_common_keys() -> None:
    """Keys agree up to the first block that differs, and nowhere after it."""
    ours = chain_keys([1, 2, 3, 4, 5, 6, 7, 8, 9], 3, b"salt")
    theirs = chain_keys([1, 2, 3, 4, 5, 7, 7, 8, 9], 3, b"salt")
    assert ours[0] == theirs[0]
    assert set(ours[1:]).isdisjoint(theirs[1:])


def test_a_partial_block_is_not_the_full_one() -> None:
    """A key names how many tokens its block covers."""
    assert chain_keys([1, 2, 3], 4, b"s")[0] != chain_keys([1, 2, 3, 0], 4, b"s")[0]


def test_the_salt_separates() -> None:
    """Other weights, other keys."""
    assert chain_keys([1, 2], 2, b"weights 0") != chain_keys([1, 2], 2, b"weights 1")


def test_golden_value() -> None:
    """Keys are the same in every process and release that shares a pool."""
    assert chain_keys([1, 2, 3], 2, b"salt")[1].hex() == GOLDEN
