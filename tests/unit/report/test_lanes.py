import itertools
import random

import numpy as np

from seer.report.chunk_table import ChunkColumns, Chunks, Fate
from seer.report.lanes import pack_lanes


def chunks(*rows: tuple[int, int, float, float]) -> Chunks:
    """Request, instance, start, end."""
    columns = ChunkColumns()
    for request, instance, start, end in rows:
        columns.add(request, instance, start, end, 1, False, Fate.ENDED)
    return columns.table(0.0)


def test_chunks_of_one_lane_never_overlap() -> None:
    """And there are as many lanes as chunks that run at once."""
    dice = random.Random(0)
    rows = []
    for request in range(300):
        start = dice.uniform(0, 100)
        rows.append((request % 40, request % 3, start, start + dice.expovariate(0.1)))
    table = chunks(*rows)
    lanes = pack_lanes(table, range(len(table)))
    for instance in range(3):
        mine = np.flatnonzero(table.instance == instance)
        for lane in set(lanes[mine].tolist()):
            on_it = [i for i in mine if lanes[i] == lane]
            on_it.sort(key=lambda i: table.start_s[i])
            pairs = itertools.pairwise(on_it)
            assert all(table.end_s[a] <= table.start_s[b] for a, b in pairs)
        peak = max(
            int(((table.start_s[mine] <= t) & (table.end_s[mine] > t)).sum())
            for t in table.start_s[mine]
        )
        assert lanes[mine].max() + 1 == peak


def test_a_request_stays_on_its_lane_where_it_can() -> None:
    """Its next chunk begins as its first ends."""
    table = chunks((0, 0, 0.0, 9.0), (1, 0, 0.0, 2.0), (2, 0, 0.0, 2.0), (2, 0, 2.0, 4.0))
    lanes = pack_lanes(table, range(4))
    assert lanes[2] == lanes[3]


def test_chunks_that_start_together_are_dealt_longest_first() -> None:
    """So that an instance's queue is a slope."""
    table = chunks((0, 0, 0.0, 1.0), (1, 0, 0.0, 3.0), (2, 0, 0.0, 2.0))
    assert pack_lanes(table, [0, 1, 2]).tolist() == [2, 0, 1]
