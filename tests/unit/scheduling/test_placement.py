import pytest

from seer.errors import InvalidInput
from seer.scheduling.admission import can_admit, chunk_tokens, end_with_block
from seer.scheduling.placement import Placement, PlacementConfig, place
from seer.types import InstanceView

CONFIG = PlacementConfig(max_spread=2, pull_gap_tokens=10)


def _view(
    instance_id: int,
    *,
    num_in_flight: int = 0,
    free: int = 10,
    reclaimable: int = 0,
    needed: int = 5,
    cached: int = 0,
    has_slot: bool = True,
) -> InstanceView:
    return InstanceView(
        instance_id=instance_id,
        num_in_flight=num_in_flight,
        free_blocks=free,
        reclaimable_blocks=reclaimable,
        needed_blocks=needed,
        cached_tokens=cached,
        has_slot=has_slot,
    )


def _to(instance_id: int, pull_from: int | None = None) -> Placement:
    return Placement(instance_id=instance_id, pull_from=pull_from)


def test_a_chunk_is_admitted_when_all_of_its_blocks_are_free_or_can_be_freed() -> None:
    """And a request slot is free."""
    assert can_admit(_view(0, free=5, needed=5))
    assert can_admit(_view(0, free=2, reclaimable=3, needed=5))
    assert not can_admit(_view(0, free=2, reclaimable=2, needed=5))
    assert not can_admit(_view(0, has_slot=False))


def test_a_chunk_ends_at_the_requests_limit() -> None:
    """Algorithm 2, line 16; without a chunk size it is all that is left."""
    assert chunk_tokens(100, 0, 250) == 100
    assert chunk_tokens(100, 200, 250) == 50
    assert chunk_tokens(None, 200, 250) == 50


@pytest.mark.parametrize(
    ("num_tokens", "num_covered", "left", "cut"),
    [
        (32, 0, 100, 32),  # from a block's start to its end
        (32, 20, 100, 12),  # to the end of the block that has begun
        (100, 20, 500, 76),  # over several blocks
        (16, 10, 100, 16),  # no block's end within reach
        (16, 16, 100, 16),
        (32, 20, 32, 32),  # perhaps the last chunk
    ],
)
def test_a_chunk_ends_where_a_block_does(
    num_tokens: int, num_covered: int, left: int, cut: int
) -> None:
    """Of the blocks that are reserved nothing is left unused, if a chunk reaches a block's end."""
    assert end_with_block(num_tokens, num_covered, 32, left) == cut


def test_nothing_fits_nowhere() -> None:
    """The caller waits."""
    assert place([_view(0, needed=11), _view(1, has_slot=False)], CONFIG) is None


def test_cached_kv_decides_while_instances_are_balanced() -> None:
    """Up to the spread, this included."""
    assert place([_view(0), _view(1, num_in_flight=2, cached=8)], CONFIG) == _to(1)


def test_load_decides_beyond_the_spread_and_kv_is_pulled_over_a_wide_gap() -> None:
    """From the best holder."""
    views = [_view(0), _view(1, num_in_flight=3, cached=11), _view(2, num_in_flight=1, cached=9)]
    assert place(views, CONFIG) == _to(0, pull_from=1)


def test_a_gap_up_to_the_margin_is_computed_again() -> None:
    """The margin itself included."""
    views = [_view(0, cached=1), _view(1, num_in_flight=3, cached=11)]
    assert place(views, CONFIG) == _to(0)


def test_a_full_holder_is_pulled_from() -> None:
    """The chunk goes where it fits."""
    assert place([_view(0, cached=20, free=0), _view(1)], CONFIG) == _to(1, pull_from=0)


def test_ties_go_to_fewest_in_flight_then_most_free_blocks_then_lowest_id() -> None:
    """Among equals in cached tokens."""
    first = _view(0, num_in_flight=1, free=20)
    assert place([first, _view(1), _view(2)], CONFIG) == _to(1)
    assert place([first, _view(1), _view(2, free=11)], CONFIG) == _to(2)


def test_the_spread_counts_instances_without_room() -> None:
    """An idle but full instance is still out of balance."""
    views = [_view(0, needed=11), _view(1, num_in_flight=3, cached=50), _view(2, num_in_flight=1)]
    assert place(views, CONFIG) == _to(2, pull_from=1)


@pytest.mark.parametrize("field", ["max_spread", "pull_gap_tokens"])
def test_negative_settings_are_refused(field: str) -> None:
    """By name."""
    with pytest.raises(InvalidInput, match=f"{field}: got -1"):
        PlacementConfig(**{field: -1})
