"""Texts of groups, merged from updates that come late, twice or in any order."""

import numpy as np
import pytest

from seer.drafting.group_store import GroupStore
from seer.drafting.messages import GroupKey, TokenUpdate, pack_tokens
from seer.errors import InvalidInput

KEY = GroupKey(3, 1)


def _store() -> GroupStore:
    store = GroupStore(vocab_size=100)
    store.register(KEY, 10.0, now=0.0)
    return store


def _update(request: int, prev: int, tokens: list[int], key: GroupKey = KEY) -> TokenUpdate:
    token_bytes = pack_tokens(np.array(tokens, np.int32))
    return TokenUpdate(key=key, request=request, prev_num_tokens=prev, token_bytes=token_bytes)


def test_appends_are_idempotent() -> None:
    """Repeated and overlapping updates leave one text; the first of two texts stays."""
    store = _store()
    assert store.append(_update(0, 0, [1, 2, 3])) == 3
    assert store.append(_update(0, 0, [1, 2, 3])) == 3
    assert store.append(_update(0, 1, [9, 9, 4])) == 4
    assert store.append(_update(0, 0, [1])) == 4
    assert store.text(KEY, 0).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("update", "field"),
    [
        (_update(0, 1, [5]), "prev_num_tokens"),
        (_update(0, -1, [5]), "prev_num_tokens"),
        (_update(-1, 0, [5]), "request"),
        (_update(0, 0, [100]), "token_ids"),
        (_update(0, 0, [-1]), "token_ids"),
        (TokenUpdate(key=KEY, request=0, prev_num_tokens=0, token_bytes=b"123"), "token_ids"),
        (_update(0, 0, [5], GroupKey(3, 2)), "key"),
    ],
)
def test_bad_updates_change_nothing(update: TokenUpdate, field: str) -> None:
    """Gaps, foreign tokens and unknown groups (another weight version is one) are named."""
    store = _store()
    with pytest.raises(InvalidInput, match=field):
        store.append(update)
    assert store.num_tokens == 0


def test_a_delta_is_what_lies_beyond() -> None:
    """Only missing tokens are handed out, and where the store has less it says so."""
    store = _store()
    store.append(_update(0, 0, [1, 2, 3]))
    store.append(_update(1, 0, [7]))
    delta = store.delta(KEY, {0: 1, 1: 4, 2: 2}, max_tokens=10)
    assert delta.updates == (_update(0, 1, [2, 3]),)
    assert delta.behind == {1: 1, 2: 0}


def test_a_delta_has_a_limit() -> None:
    """What does not fit comes with the next one."""
    store = _store()
    store.append(_update(0, 0, [1, 2, 3]))
    store.append(_update(1, 0, [7, 8]))
    assert store.delta(KEY, {}, max_tokens=4).updates == (
        _update(0, 0, [1, 2, 3]),
        _update(1, 0, [7]),
    )
    assert store.delta(KEY, {}, max_tokens=0).updates == ()


def test_groups_expire() -> None:
    """A group lives until the latest time that anybody asked for."""
    store = _store()
    store.register(KEY, 1.0, now=5.0)
    assert store.expire(9.0) == []
    assert store.expire(10.0) == [KEY]
    with pytest.raises(InvalidInput, match="key"):
        store.lengths(KEY)


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_times_to_live_are_refused(ttl_s: float) -> None:
    """A group must end some time."""
    with pytest.raises(InvalidInput, match="ttl_s"):
        GroupStore().register(KEY, ttl_s, now=0.0)


def test_bad_lengths_and_vocabularies_are_refused() -> None:
    """Negative lengths and empty vocabularies are named."""
    with pytest.raises(InvalidInput, match="lengths"):
        _store().delta(KEY, {0: -1}, max_tokens=1)
    with pytest.raises(InvalidInput, match="vocab_size"):
        GroupStore(vocab_size=0)
