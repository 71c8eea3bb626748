"""Groups sharded over several draft servers."""

from collections.abc import Sequence

import numpy as np
import pytest

from seer.drafting.draft_server import DraftServer
from seer.drafting.messages import Fetched, GroupHave, GroupKey, TokenUpdate, pack_tokens
from seer.drafting.sharded_server import ShardedServer

KEYS = [GroupKey(group) for group in range(4)]


class Line:
    """A link that can be cut."""

    def __init__(self) -> None:
        self.server = DraftServer(vocab_size=100)
        self.is_cut = False
        self.is_closed = False

    def update(self, updates: Sequence[TokenUpdate]) -> None:
        self._check()
        self.server.update(updates)

    def fetch(self, groups: Sequence[GroupHave]) -> Fetched:
        self._check()
        return self.server.fetch(groups)

    def close(self) -> None:
        self.is_closed = True

    def _check(self) -> None:
        if self.is_cut:
            raise ConnectionError("cut")


def _have(key: GroupKey) -> GroupHave:
    return GroupHave(key=key, ttl_s=60.0, lengths={})


def _update(key: GroupKey) -> TokenUpdate:
    tokens = pack_tokens(np.arange(key.group + 1, dtype=np.int32))
    return TokenUpdate(key=key, request=0, prev_num_tokens=0, token_bytes=tokens)


def _filled(lines: list[Line]) -> ShardedServer:
    sharded = ShardedServer(lines)
    sharded.fetch([_have(key) for key in KEYS])
    sharded.update([_update(key) for key in KEYS])
    return sharded


def test_each_group_lives_on_one_server_and_all_are_fetched() -> None:
    """A client sees one server."""
    lines = [Line(), Line()]
    sharded = _filled(lines)
    assert [line.server.stats.num_groups for line in lines] == [2, 2]
    assert [line.server.stats.num_tokens for line in lines] == [1 + 3, 2 + 4]
    fetched = sharded.fetch([_have(key) for key in KEYS])
    assert fetched.is_complete
    lengths = {d.key.group: len(d.updates[0].token_bytes) // 4 for d in fetched.deltas}
    assert lengths == {0: 1, 1: 2, 2: 3, 3: 4}
    sharded.close()
    assert all(line.is_closed for line in lines)


def test_a_server_that_is_away_takes_its_groups_along_and_no_others() -> None:
    """Only when nobody answers is the client told."""
    lines = [Line(), Line()]
    sharded = _filled(lines)
    lines[0].is_cut = True
    assert [d.key.group for d in sharded.fetch([_have(key) for key in KEYS]).deltas] == [1, 3]
    sharded.update([_update(key) for key in KEYS])
    lines[1].is_cut = True
    with pytest.raises(ConnectionError):
        sharded.fetch([_have(key) for key in KEYS])
    with pytest.raises(ConnectionError):
        sharded.update([_update(KEYS[0])])
    assert sharded.fetch([]).is_complete
