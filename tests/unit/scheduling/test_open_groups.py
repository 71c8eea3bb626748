from seer.scheduling.open_groups import PROMPT_SHARE, OpenGroups

PROMPT = 100
KV_TOKENS = int(3 * PROMPT / PROMPT_SHARE)
"""Room for the prompts of three groups."""


def _groups(count: int) -> OpenGroups:
    groups = OpenGroups()
    groups.resize(KV_TOKENS)
    for group in range(count):
        groups.add(group, PROMPT)
    return groups


def _open(groups: OpenGroups) -> list[int]:
    return [group for group in range(10) if group in groups]


def test_as_many_groups_are_open_as_prompts_have_room() -> None:
    """In the order in which they came."""
    assert _open(_groups(5)) == [0, 1, 2]


def test_a_group_that_is_complete_makes_room_for_the_next() -> None:
    """It is named, as its requests' places change."""
    groups = _groups(5)
    assert groups.remove(1) == [3]
    assert _open(groups) == [0, 2, 3]


def test_a_group_that_never_opened_may_go() -> None:
    """A cancelled one is not opened later."""
    groups = _groups(5)
    assert groups.remove(3) == []
    assert groups.remove(0) == [4]


def test_a_long_prompt_is_not_overtaken_for_ever() -> None:
    """Shorter prompts behind it wait with it, so it is opened once there is room."""
    groups = _groups(2)
    groups.add(2, 2 * PROMPT)
    groups.add(3, PROMPT)
    assert _open(groups) == [0, 1]
    assert groups.remove(0) == [2]


def test_instances_that_join_open_groups_and_lost_ones_close_none() -> None:
    """What has been begun goes on."""
    groups = _groups(5)
    assert groups.resize(2 * KV_TOKENS) == [3, 4]
    assert groups.resize(0) == []
    assert _open(groups) == [0, 1, 2, 3, 4]
