"""Groups made of trajectories that run in loops of their own. Needs no verl."""

import asyncio
from collections.abc import Sequence

import pytest

from seer.errors import EngineFailure, InvalidInput
from seer.trainers.verl.groups import Groups
from seer.trainers.verl.turns import Generated, Trajectory
from seer.types import SamplingParams

SAMPLING = SamplingParams(max_tokens=8)


def trajectory(uid: str, order: int) -> Trajectory:
    return Trajectory(uid=uid, order=order, step=1, is_validation=False)


class Recorder:
    """Answers at once with the place in its group, and keeps what it was asked."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.groups = Groups(self._submit)

    async def turn(self, uid: str, order: int, prompt: Sequence[int] = (3,)) -> int:
        return (await self.groups.turn(trajectory(uid, order), prompt, SAMPLING)).token_ids[0]

    async def _submit(
        self, _: Trajectory, prompt: Sequence[int], sampling: SamplingParams, size: int
    ) -> list[Generated]:
        del sampling
        if prompt == (9,):
            raise EngineFailure("broken")
        self.sizes.append(size)
        return [
            Generated(
                token_ids=[place],
                logprobs=[0.0],
                global_steps=None,
                num_preempted=None,
                num_cached_tokens=None,
            )
            for place in range(size)
        ]


def test_members_are_in_order_however_they_come() -> None:
    """The order of a trajectory, not that of coming, is its place in the group."""

    async def run() -> tuple[list[int], list[int]]:
        recorder = Recorder()
        recorder.groups.expect({"a": 3})
        places = await asyncio.gather(*(recorder.turn("a", order) for order in (2, 0, 1)))
        return places, recorder.sizes

    assert asyncio.run(run()) == ([2, 0, 1], [3])


def test_different_first_prompts_are_groups_of_their_own() -> None:
    """A loop may begin with a prompt that its siblings do not have."""

    async def run() -> list[int]:
        recorder = Recorder()
        recorder.groups.expect({"a": 3})
        await asyncio.gather(
            recorder.turn("a", 0), recorder.turn("a", 1, (4,)), recorder.turn("a", 2)
        )
        return sorted(recorder.sizes)

    assert asyncio.run(run()) == [1, 2]


def test_a_failure_reaches_every_member() -> None:
    """None of those who wait is left waiting."""

    async def run() -> list[object]:
        recorder = Recorder()
        recorder.groups.expect({"a": 2})
        turns = (recorder.turn("a", order, (9,)) for order in range(2))
        return list(await asyncio.gather(*turns, return_exceptions=True))

    assert [type(error) for error in asyncio.run(run())] == [EngineFailure, EngineFailure]


def test_a_prompt_that_nobody_expects_is_refused() -> None:
    """As is one whose trajectories have all ended, and a trajectory too many."""

    async def run() -> None:
        recorder = Recorder()
        with pytest.raises(InvalidInput, match="uid"):
            await recorder.turn("a", 0)
        recorder.groups.expect({"a": 1})
        await recorder.turn("a", 0)
        with pytest.raises(InvalidInput, match=r"rollout\.n"):
            await recorder.turn("a", 1)
        recorder.groups.leave("a", 0)
        with pytest.raises(InvalidInput, match="uid"):
            await recorder.turn("a", 0)
        with pytest.raises(InvalidInput, match=r"rollout\.n"):
            recorder.groups.expect({"b": 0})

    asyncio.run(run())
