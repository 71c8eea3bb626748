"""Draft clients around a server in the same process, with no thread and a clock of our own."""

from collections.abc import Sequence

import numpy as np
import pytest

from seer.drafting.draft_client import ClientSettings, DraftClient
from seer.drafting.draft_server import DraftServer
from seer.drafting.messages import Fetched, GroupHave, GroupKey, TokenUpdate
from seer.drafting.suffix_tree import DraftSettings
from seer.errors import InvalidInput

KEY = GroupKey(0)
TEXT = list(range(10, 30))
PLAIN = DraftSettings(min_probability=0.0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Line:
    """A link that can be cut, lose updates, and lead to another server."""

    def __init__(self, server: DraftServer) -> None:
        self.server = server
        self.is_cut = False
        self.loses_updates = False

    def update(self, updates: Sequence[TokenUpdate]) -> None:
        if not self.loses_updates:
            self.server.update(updates)

    def fetch(self, groups: Sequence[GroupHave]) -> Fetched:
        if self.is_cut:
            raise ConnectionError("cut")
        return self.server.fetch(groups)

    def close(self) -> None:
        pass


def _client(link: Line | DraftServer, clock: Clock | None = None, **settings: int) -> DraftClient:
    client = DraftClient(
        link,
        ClientSettings(vocab_size=100, **({"update_tokens": 4} | settings)),
        clock=clock or Clock(),
    )
    client.register_group(KEY, [1, 2, 3], ttl_s=10.0)
    return client


def _settle(*clients: DraftClient) -> None:
    for _ in range(4):
        for client in clients:
            client.sync()


def _drafted(client: DraftClient, output: list[int]) -> list[int]:
    """What a new request of the group with this output is drafted."""
    request = client.open(KEY, 99, output)
    drafted = client.speculate([request], 4, PLAIN).token_ids.tolist()
    client.end(request)
    client.drop_group(KEY)
    return drafted


def test_a_client_drafts_what_another_wrote() -> None:
    """A sibling's text comes by way of the server, in multiples of the update's tokens."""
    server = DraftServer(vocab_size=100)
    writer, reader = _client(server), _client(server)
    request = writer.open(KEY, 0)
    writer.append(request, 0, TEXT[:10])
    _settle(writer, reader)
    assert server.stats.num_tokens == 8
    writer.end(request)
    _settle(writer, reader)
    assert server.stats.num_tokens == 10
    assert reader.stats.num_pulled_tokens == 10
    assert _drafted(reader, TEXT[2:5]) == TEXT[5:9]


def test_drafts_go_on_without_the_server() -> None:
    """Own siblings are drafted from; what was written meanwhile arrives when the line is back."""
    server = DraftServer(vocab_size=100)
    line = Line(server)
    client = _client(line)
    line.is_cut = True
    client.append(client.open(KEY, 0), 0, TEXT)
    with pytest.raises(ConnectionError):
        client.sync()
    line.is_cut = False
    _settle(client)
    assert server.stats.num_tokens == 20
    assert _drafted(client, TEXT[2:5]) == TEXT[5:9]


def test_an_empty_server_is_refilled() -> None:
    """A new server gets all texts back, also those of a client that is gone, once each."""
    line, other = Line(DraftServer(vocab_size=100)), Line(DraftServer(vocab_size=100))
    other.server = line.server
    gone, left = _client(other), _client(line)
    gone.append(gone.open(KEY, 0), 0, TEXT)
    left.append(left.open(KEY, 1), 0, TEXT[:8])
    _settle(gone, left)
    line.server = DraftServer(vocab_size=100)
    _settle(left)
    assert line.server.stats.num_tokens == 28
    newcomer = _client(line)
    _settle(newcomer)
    assert newcomer.stats.num_pulled_tokens == 28


def test_lost_updates_are_sent_again() -> None:
    """The fetch says what the server lacks."""
    line = Line(DraftServer(vocab_size=100))
    client = _client(line)
    _settle(client)
    line.loses_updates = True
    client.append(client.open(KEY, 0), 0, TEXT)
    client.sync()
    line.loses_updates = False
    client.sync()
    assert line.server.stats.num_tokens == 20


def test_small_messages_carry_everything_in_time() -> None:
    """Limits of pushes and answers split a text over exchanges."""
    server = DraftServer(vocab_size=100, max_answer_tokens=3)
    writer, reader = _client(server, max_push_tokens=4), _client(server)
    writer.append(writer.open(KEY, 0), 0, TEXT)
    for _ in range(20):
        _settle(writer, reader)
    assert reader.stats.num_pulled_tokens == 20
    assert reader.sync()


def test_what_is_not_due_yet_asks_for_no_further_exchange() -> None:
    """A running request's last tokens wait for more; all else is settled."""
    client = _client(DraftServer(vocab_size=100))
    client.append(client.open(KEY, 0), 0, TEXT[:6])
    assert not client.sync()  # the server has only just heard of the group
    assert client.sync()
    assert client.stats.num_pushed_tokens == 4


def test_a_weight_version_is_another_group() -> None:
    """What other weights wrote is not drafted."""
    server = DraftServer(vocab_size=100)
    writer, reader = _client(server), _client(server)
    new = GroupKey(KEY.group, 1)
    reader.register_group(new, [1, 2, 3])
    writer.append(writer.open(KEY, 0), 0, TEXT)
    _settle(writer, reader)
    request = reader.open(new, 5, TEXT[2:5])
    assert reader.speculate([request], 4, PLAIN).token_ids.tolist() == []


def test_a_request_that_moves_goes_on() -> None:
    """The next instance takes the text over, and the old one's late update does no harm."""
    server = DraftServer(vocab_size=100)
    first, second = _client(server), _client(server)
    request = first.open(KEY, 0)
    first.append(request, 0, TEXT[:8])
    _settle(first, second)
    first.end(request)
    moved = second.open(KEY, 0, TEXT[:10])
    second.append(moved, 10, TEXT[10:])
    _settle(first, second, first)
    assert server.stats.num_tokens == 20
    assert _drafted(first, TEXT[2:5]) == TEXT[5:9]


def test_a_match_does_not_run_ahead_of_its_request() -> None:
    """A request that restarts before what others know of it drafts from where it is."""
    server = DraftServer(vocab_size=100)
    dead, heir = _client(server), _client(server)
    dead.append(dead.open(KEY, 0), 0, TEXT[:12])
    _settle(dead, heir)
    request = heir.open(KEY, 0, TEXT[:9])
    assert not request.is_shared
    assert heir.append(request, 9, [TEXT[9]]) == 10
    assert heir.speculate([request], 1, PLAIN).token_ids.tolist() == [TEXT[10]]


def test_what_others_write_does_not_touch_a_running_request() -> None:
    """A dead instance's last tokens, arriving late, leave the heir's request where it is."""
    server = DraftServer(vocab_size=100)
    dead, heir = _client(server), _client(server)
    request = heir.open(KEY, 0, TEXT[:4])
    dead.append(dead.open(KEY, 0), 0, TEXT[:12])
    _settle(dead, heir)
    assert heir.append(request, 4, [50]) == 5


def test_running_requests_keep_their_group() -> None:
    """The time to live runs from the last use; a group that has expired may come again."""
    clock = Clock()
    server = DraftServer(vocab_size=100, clock=clock)
    client = _client(server, clock)
    request = client.open(KEY, 0)
    clock.now = 50.0
    client.append(request, 0, TEXT)
    _settle(client)
    clock.now = 100.0  # the server's copy is over, the client's is not
    _settle(client)
    assert server.stats.num_tokens == 20
    client.end(request)
    clock.now = 111.0
    _settle(client)
    assert client.group_keys == []
    with pytest.raises(InvalidInput, match="key"):
        client.open(KEY, 1)
    client.register_group(KEY, [1, 2, 3])
    assert client.append(client.open(KEY, 1), 0, TEXT) == 20


def test_bad_input_is_named() -> None:
    """Unknown groups, gaps, foreign tokens, negative budgets, ended and doubled requests."""
    client = _client(DraftServer(vocab_size=100))
    request = client.open(KEY, 0)
    with pytest.raises(InvalidInput, match="key"):
        client.open(GroupKey(7), 0)
    for bad_request in (0, -1, 2**80):  # 0 runs already
        with pytest.raises(InvalidInput, match="request"):
            client.open(KEY, bad_request)
    with pytest.raises(InvalidInput, match="prev_num_tokens"):
        client.append(request, 1, [5])
    for bad in ([100], [-1], [2**40], [[1]], [1.5]):
        with pytest.raises(InvalidInput, match="token_ids"):
            client.append(request, 0, bad)
        with pytest.raises(InvalidInput, match="token_ids"):
            client.register_group(GroupKey(8), bad)
    with pytest.raises(InvalidInput, match="max_nodes"):
        client.speculate([request], np.array([-1], np.int32), PLAIN)
    with pytest.raises(InvalidInput, match="ttl_s"):
        client.register_group(GroupKey(8), [1], ttl_s=0.0)
    client.end(request)
    client.end(request)
    with pytest.raises(InvalidInput, match="request"):
        client.append(request, 0, [5])


def test_the_server_passes_over_what_is_not_allowed() -> None:
    """One bad group or update does not spoil the others; each is counted."""
    server = DraftServer(vocab_size=100)
    bad = GroupHave(key=GroupKey(1), ttl_s=-1.0, lengths={})
    good = GroupHave(key=KEY, ttl_s=1.0, lengths={})
    assert [delta.key for delta in server.fetch([bad, good]).deltas] == [KEY]
    server.update([TokenUpdate(key=KEY, request=0, prev_num_tokens=2, token_bytes=b"")])
    assert server.stats.num_refused == 2


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_group_may_begin_with_what_earlier_weights_wrote(*, warm_start: bool) -> None:
    """With a warm start the same prompt's new tree knows the old texts; without it, nothing."""
    client = _client(DraftServer(vocab_size=100), warm_start=warm_start)
    request = client.open(KEY, 0)
    client.append(request, 0, TEXT)
    client.end(request)
    client.drop_group(KEY)
    newer = GroupKey(5, weight_version=1)
    client.register_group(newer, [1, 2, 3])
    request = client.open(newer, 0, TEXT[:6])
    drafted = client.speculate([request], 3, PLAIN).token_ids.tolist()
    assert drafted == (TEXT[6:9] if warm_start else [])
    _settle(client)
    assert client.stats.num_pushed_tokens == 4, "earlier texts are nobody's to push"
