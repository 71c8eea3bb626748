"""The drafter of an instance: what it learns of the drafts that it cut."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from seer.drafting.acceptance import AcceptanceStatistics
from seer.drafting.budget import FixedBudget
from seer.drafting.draft_client import ClientSettings, DraftClient
from seer.drafting.draft_server import DraftServer
from seer.drafting.planner import Planner
from seer.drafting.suffix_tree import DraftSettings
from seer.engines.serving.group_drafter import GroupDrafter
from seer.types import Chunk, RequestId, SamplingParams

TEXT = list(range(100, 140))
FIRST, SECOND = RequestId(0, 0), RequestId(0, 1)


def _chunk(name: RequestId) -> Chunk:
    return Chunk(
        request_id=name,
        chunk_index=0,
        sampling_group=0,
        prompt_token_ids=[1, 2, 3],
        output_token_ids=[],
        sampling=SamplingParams(),
        max_tokens=64,
        keep_kv=False,
    )


@contextmanager
def _drafter(num_nodes: int) -> Iterator[tuple[GroupDrafter, AcceptanceStatistics]]:
    """A drafter of two requests, the first of which has written a text and the second its start."""
    statistics = AcceptanceStatistics()
    client = DraftClient(DraftServer(vocab_size=1000), ClientSettings(vocab_size=1000))
    planner = Planner(FixedBudget(num_nodes), DraftSettings(), statistics)
    drafter = GroupDrafter(client, planner)
    for name, tokens in ((FIRST, TEXT), (SECOND, TEXT[:20])):
        drafter.begin(_chunk(name))
        drafter.extend(name, tokens)
    yield drafter, statistics
    drafter.close()


def _known(statistics: AcceptanceStatistics) -> float:
    return float(statistics.reliability()[:, 0].sum())


@pytest.mark.parametrize("is_told_first", [False, True])
def test_it_learns_from_what_came(*, is_told_first: bool) -> None:
    """Of three guesses two were right, whether it hears of tokens or of guesses first."""
    with _drafter(3) as (drafter, statistics):
        [draft] = drafter.draft([SECOND], [40], 20)
        assert list(draft.token_ids) == TEXT[20:23]
        if is_told_first:
            drafter.learn([3], [[0, 1]])
        drafter.extend(SECOND, [*TEXT[20:22], 7])
        if not is_told_first:
            drafter.learn([3], [[0, 1]])
        drafter.draft([SECOND], [40], 23)
        assert _known(statistics) == 3
        accepted = statistics.reliability()
        assert np.nansum(accepted[:, 0] * accepted[:, 2]) == pytest.approx(2)


def test_it_learns_without_verifying() -> None:
    """Nothing was verified, and nobody said so; the token that came judges the first guess."""
    with _drafter(3) as (drafter, statistics):
        drafter.draft([SECOND], [40], 20)
        drafter.extend(SECOND, TEXT[20:21])
        drafter.draft([SECOND], [40], 21)
        assert _known(statistics) == 1


def test_requests_that_wrote_nothing_teach_nothing() -> None:
    """One of two requests leaves before its tokens are told."""
    with _drafter(3) as (drafter, statistics):
        drafter.draft([FIRST, SECOND], [40, 40], 60)
        drafter.end(FIRST)
        drafter.extend(SECOND, TEXT[20:21])
        drafter.draft([SECOND], [40], 21)
        assert _known(statistics) == 1


def test_the_last_token_gets_no_guess() -> None:
    """Where no request may draft, nothing is asked of the trees."""
    with _drafter(3) as (drafter, _):
        assert [len(draft) for draft in drafter.draft([FIRST, SECOND], [0, 0], 60)] == [0, 0]
        assert drafter.draft([], [], 0) == []
