"""Which instance takes the next chunk, and from which one it pulls KV (paper OSDI section 3.2).

While the instances are balanced a request goes where most of its KV is; else to the least loaded
one, which pulls the KV from the best holder when recomputing it would cost too much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from seer.errors import InvalidInput
from seer.scheduling.admission import can_admit
from seer.types import InstanceView


class PlacementConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When balance matters more than cached KV. Raises InvalidInput on a bad value."""

    max_spread: int = 32
    """Largest difference of chunks in flight between instances at which cached KV decides; the
    paper's value."""
    pull_gap_tokens: int = 512
    """KV is pulled when the chosen instance lacks more than this many tokens of the best holder's;
    the paper's value. 0: never compute again what another instance has."""

    def __post_init__(self) -> None:
        for field in ("max_spread", "pull_gap_tokens"):
            if getattr(self, field) < 0:
                raise InvalidInput(field, getattr(self, field), "allowed: an integer >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a chunk goes."""

    instance_id: int
    pull_from: int | None
    """Instance whose KV of the request is copied over; None: nothing is."""


def place(views: Sequence[InstanceView], config: PlacementConfig) -> Placement | None:
    """Choose among the instances where the chunk fits; None when it fits nowhere.

    Ties: fewest in flight, then most free blocks (each leaves room where it is scarce), then
    lowest id.
    """
    fitting = [view for view in views if can_admit(view)]
    if not fitting:
        return None
    in_flight = [view.num_in_flight for view in views]
    is_balanced = max(in_flight) - min(in_flight) <= config.max_spread
    chosen = min(fitting, key=_cached_first if is_balanced else _load)
    best = max(views, key=lambda view: (view.cached_tokens, -view.instance_id))
    has_gap = best.cached_tokens - chosen.cached_tokens > config.pull_gap_tokens
    return Placement(
        instance_id=chosen.instance_id, pull_from=best.instance_id if has_gap else None
    )


def _load(view: InstanceView) -> tuple[int, ...]:
    return (view.num_in_flight, -view.free_blocks, view.instance_id)


def _cached_first(view: InstanceView) -> tuple[int, ...]:
    return (-view.cached_tokens, *_load(view))
