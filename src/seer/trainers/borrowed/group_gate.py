"""Groups out of requests that come one by one, as trainers with a loop for each sample send them.

Requests with one prompt that come within one turn of the event loop are a group: a trainer that
starts the loops of a group together has them ask together. No clock decides: what is started in
one go has asked before the gate's turn comes. A request that comes later is a group of its own.
"""

import asyncio
from collections.abc import Sequence

from seer.rollout.prompts import PromptItem
from seer.rollout.results import Completion
from seer.rollout.rollout import Rollout
from seer.types import SamplingParams

_Key = tuple[tuple[int, ...], SamplingParams]


class GroupGate:
    """The requests of one rollout session; belongs to its event loop."""

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._forming: dict[_Key, list[asyncio.Future[Completion]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.group_sizes: list[int] = []
        """Of the groups submitted so far."""

    async def generate(self, prompt: Sequence[int], sampling: SamplingParams) -> Completion:
        """One response. Raises what the rollout of its group raises."""
        loop = asyncio.get_running_loop()
        key = (tuple(prompt), sampling)
        if key not in self._forming:
            self._forming[key] = []
            loop.call_soon(self._submit, key)
        member: asyncio.Future[Completion] = loop.create_future()
        self._forming[key].append(member)
        return await member

    def _submit(self, key: _Key) -> None:
        members = self._forming.pop(key)
        self.group_sizes.append(len(members))
        task = asyncio.create_task(self._run(key, members))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, key: _Key, members: list[asyncio.Future[Completion]]) -> None:
        prompt, sampling = key
        item = PromptItem(prompt=list(prompt))
        try:
            [group] = await self._rollout.generate(
                [item], group_size=len(members), sampling=sampling
            )
        except Exception as error:  # noqa: BLE001 - handed to those who wait
            for member in members:
                if not member.done():
                    member.set_exception(error)
            return
        for member, completion in zip(members, group.completions, strict=True):
            if not member.done():
                member.set_result(completion)
