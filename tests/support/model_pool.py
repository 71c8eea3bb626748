"""A pool that knows, slot by slot, what was copied where; the controller's books are not asked."""

from dataclasses import dataclass, field

from seer.rollout.events import ExportObject, SpillObject
from seer.types import KVKey, PoolEntry, Tier

Place = tuple[Tier, int]


@dataclass
class ModelPool:
    """Contents of slots, and which of them somebody is writing or reading."""

    contents: dict[Place, tuple[KVKey, int]] = field(default_factory=dict)
    """Slot to (object, tokens that it covers)."""
    busy: dict[Place, int] = field(default_factory=dict)

    def export(self, action: ExportObject, num_tokens: int, *, is_ok: bool) -> None:
        """Write an object to its slots; a failed export leaves rubbish."""
        places = [(action.tier, slot) for slot in action.slots]
        self._overwrite(places)
        if is_ok:
            self.contents.update(dict.fromkeys(places, (action.key, num_tokens)))
        self.hold(places)

    def spill(self, action: SpillObject, *, is_ok: bool) -> None:
        """Copy slots to a lower tier; the old slots are free for others at once."""
        source, places = spill_source(action), spill_target(action)
        assert not any(self.busy.get(place) for place in source)
        contents = [self.contents.pop(place, None) for place in source]
        self._overwrite(places)
        for place, content in zip(places, contents, strict=True):
            if is_ok and content is not None:
                self.contents[place] = content
        self.hold(places)

    def reads(self, entry: PoolEntry) -> bool:
        """Whether the entry's slots hold all that it says."""
        wanted = (entry.key, entry.num_tokens)
        return all(self.contents.get((entry.tier, slot)) == wanted for slot in entry.slots)

    def hold(self, places: list[Place]) -> None:
        """Somebody uses these slots until `let_go`."""
        for place in places:
            self.busy[place] = self.busy.get(place, 0) + 1

    def let_go(self, places: list[Place]) -> None:
        """Undo one `hold`."""
        for place in places:
            self.busy[place] -= 1

    def _overwrite(self, places: list[Place]) -> None:
        assert len(set(places)) == len(places)
        for place in places:
            assert not self.busy.get(place), f"{place} is in use"
            self.contents.pop(place, None)


def spill_source(spill: SpillObject) -> list[Place]:
    """Slots that a spill reads."""
    return _spill_steps(spill)[0]


def spill_target(spill: SpillObject) -> list[Place]:
    """Slots that a spill writes."""
    return _spill_steps(spill)[1]


def _spill_steps(spill: SpillObject) -> list[list[Place]]:
    slots = {
        Tier.HOST: spill.host_slots,
        Tier.DISK: spill.disk_slots,
        Tier.REMOTE: spill.remote_slots,
    }
    steps = [[(tier, slot) for slot in named] for tier, named in slots.items() if named]
    assert len(steps) == 2
    return steps
