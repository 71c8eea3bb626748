"""Groups out of trajectories that run each in a loop of its own, on several workers.

The first turns of the trajectories of one prompt are held until all have come: they are a group,
with one prompt. Later turns differ from each other: each is a group of one, at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from seer.errors import InvalidInput
from seer.trainers.verl.turns import Generated, Trajectory
from seer.types import SamplingParams

Submit = Callable[[Trajectory, Sequence[int], SamplingParams, int], Awaitable[list[Generated]]]
"""Generate responses to a prompt of a trajectory (the first of its group), that many, in order."""

_Waiting = asyncio.Future[Generated]


@dataclass(frozen=True, slots=True)
class _First:
    """A first turn that waits for its siblings'."""

    trajectory: Trajectory
    prompt: tuple[int, ...]
    sampling: SamplingParams
    waiting: _Waiting


@dataclass(slots=True)
class _Group:
    size: int
    begun: set[int] = field(default_factory=set)
    """Trajectories whose first turn has come, or that need none."""
    ended: set[int] = field(default_factory=set)
    firsts: dict[int, _First] = field(default_factory=dict)


class Groups:
    """The groups of the batches in progress; belongs to one event loop."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._groups: dict[str, _Group] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Say how many trajectories each prompt will have, before their first turns.

        Raises InvalidInput for a size below one.
        """
        for uid, size in sizes.items():
            if size < 1:
                raise InvalidInput("rollout.n", size, f"allowed: an integer >= 1 (prompt {uid})")
            self._groups[uid] = _Group(size)

    async def turn(
        self, trajectory: Trajectory, prompt: Sequence[int], sampling: SamplingParams
    ) -> Generated:
        """The response to one turn. Raises what its generation raises.

        Raises InvalidInput for a prompt that nobody expects, and for a trajectory too many.
        """
        uid, order = trajectory.uid, trajectory.order
        group = self._groups.get(uid)
        if group is None:
            raise InvalidInput("uid", uid, "allowed: a prompt of a batch in progress")
        if order in group.begun:
            [generated] = await self._submit(trajectory, prompt, sampling, 1)
            return generated
        if len(group.begun) >= group.size:
            allowed = f"allowed: {group.size} trajectories of prompt {uid} (rollout.n)"
            raise InvalidInput("rollout.n", f"trajectory {order}", allowed)
        waiting: _Waiting = asyncio.get_running_loop().create_future()
        group.firsts[order] = _First(trajectory, tuple(prompt), sampling, waiting)
        self._begin(group, order)
        return await waiting

    def leave(self, uid: str, order: int) -> None:
        """A trajectory is over: its siblings need not wait for it."""
        group = self._groups.get(uid)
        if group is None:
            return
        group.firsts.pop(order, None)
        group.ended.add(order)
        if len(group.ended) >= group.size:
            del self._groups[uid]
        elif order not in group.begun:
            self._begin(group, order)

    def _begin(self, group: _Group, order: int) -> None:
        group.begun.add(order)
        if len(group.begun) < group.size or not group.firsts:
            return
        alike: dict[tuple[tuple[int, ...], SamplingParams], list[_First]] = {}
        for _, first in sorted(group.firsts.items()):
            alike.setdefault((first.prompt, first.sampling), []).append(first)
        group.firsts.clear()
        for firsts in alike.values():
            task = asyncio.create_task(self._run(firsts))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, firsts: Sequence[_First]) -> None:
        """Generate the first turns of trajectories that begin alike."""
        one = firsts[0]
        try:
            results = await self._submit(one.trajectory, one.prompt, one.sampling, len(firsts))
        except Exception as error:  # noqa: BLE001 - handed to those who wait
            for first in firsts:
                if not first.waiting.done():
                    first.waiting.set_exception(error)
            return
        for first, generated in zip(firsts, results, strict=True):
            if not first.waiting.done():
                first.waiting.set_result(generated)
