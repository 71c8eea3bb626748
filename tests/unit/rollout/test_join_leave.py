"""Instances that join and leave while a rollout runs, over the scripted engine."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import scripted_output
from seer.errors import EngineFailure, InvalidInput
from seer.kvpool.pool import PoolConfig, Spilled
from seer.rollout.config import RolloutConfig
from seer.rollout.engine import Engine, InstanceSetup
from seer.rollout.events import FinishRequest, InstanceJoined, InstanceLeft, StartChunk
from seer.rollout.results import GroupResult, RolloutProgress
from seer.rollout.rollout import Rollout
from seer.rollout.site import Site, SitePlan
from seer.rollout.trace import read_trace, replay
from seer.types import PoolAddress, SamplingParams

SPEC = ScriptedSpec(num_blocks=24, min_length=40, max_length=80, step_time_s=0.001)
SAMPLING = SamplingParams(seed=7, max_tokens=80)
PROMPTS = [f"Prompt number {i}" for i in range(6)]
GROUP_SIZE = 4


def _config(**changes: object) -> RolloutConfig:
    settings = {
        "engine": SPEC,
        "chunk_size": 8,
        "pool": PoolConfig(host_bytes=1 << 20),
        **changes,
    }
    return RolloutConfig(**settings)  # type: ignore[arg-type]


async def _generate(
    config: RolloutConfig, change: Callable[[Rollout], AbstractAsyncContextManager[None]]
) -> tuple[list[GroupResult], int]:
    """A rollout, with `change` around it; groups, and how many instances were lost."""
    async with Rollout(config) as rollout, change(rollout):
        groups = await rollout.generate(PROMPTS, group_size=GROUP_SIZE, sampling=SAMPLING)
        return groups, rollout.metrics().instances_lost


def _check_texts(groups: list[GroupResult]) -> None:
    for i, group in enumerate(groups):
        for completion in group.completions:
            expected = scripted_output(SPEC.shape, SAMPLING.seed, i, completion.member)
            assert completion.output_token_ids == expected[: SAMPLING.max_tokens]


async def _after(rollout: Rollout, num_tokens: int) -> None:
    while rollout._driver.store.num_tokens < num_tokens:  # noqa: ASYNC110 - no event says so
        await asyncio.sleep(0.001)


@asynccontextmanager
async def _meanwhile(work: asyncio.Task[None]) -> AsyncIterator[None]:
    yield
    await work


def test_an_instance_that_joins_takes_part_and_one_that_leaves_costs_no_text(
    tmp_path: Path,
) -> None:
    """Each request ends once, nothing counts as lost, and the trace replays."""
    trace = tmp_path / "trace.jsonl"

    def change(rollout: Rollout) -> AbstractAsyncContextManager[None]:
        async def join_and_leave() -> None:
            await _after(rollout, 200)
            assert await rollout.add_instance() == 1
            await _after(rollout, 500)
            await rollout.remove_instance(0)

        return _meanwhile(asyncio.create_task(join_and_leave()))

    groups, lost = asyncio.run(_generate(_config(num_instances=1, trace_path=trace), change))
    assert lost == 0
    _check_texts(groups)
    assert replay(trace) > 0
    records = list(read_trace(trace))
    joined = [r.event.instance_id for r in records if isinstance(r.event, InstanceJoined)]
    left = [r.event for r in records if isinstance(r.event, InstanceLeft)]
    assert joined == [0, 1]
    assert left == [InstanceLeft(instance_id=0, on_purpose=True)]
    actions = [action for record in records for action in record.actions]
    finished = Counter(a.request_id for a in actions if isinstance(a, FinishRequest))
    assert set(finished.values()) == {1}
    assert any(isinstance(a, StartChunk) and a.instance_id == 1 for a in actions)


def test_the_last_instance_and_unknown_ones_cannot_be_removed() -> None:
    """The numbers that can are named."""

    async def run() -> None:
        async with Rollout(_config(num_instances=1)) as rollout:
            for instance_id in (0, 5):
                with pytest.raises(InvalidInput, match=r"instance_id: got \d; allowed: one of \[0"):
                    await rollout.remove_instance(instance_id)

    asyncio.run(run())


def test_progress_shows_who_is_there() -> None:
    """An instance that has left is gone from it, and its number is not given again."""

    async def run() -> RolloutProgress:
        seen: list[RolloutProgress] = []
        async with Rollout(_config(num_instances=2)) as rollout:
            await rollout.remove_instance(1)
            assert await rollout.add_instance() == 2
            await rollout.generate(
                PROMPTS[:1], group_size=1, sampling=SAMPLING, on_progress=seen.append
            )
        return seen[-1]

    assert [each.instance_id for each in asyncio.run(run()).instances] == [0, 2]


# ---------------------------------------------------------------- a site that grows


class GrowingSite:
    """Has room for a number of further instances, some of which do not come up."""

    def __init__(self, plan: SitePlan, num_further: int, failing: tuple[int, ...]) -> None:
        self._plan = plan
        self._num_further = num_further
        self._failing = failing
        self.pool = PoolAddress(
            host_path="",
            num_host_slots=0,
            disk_path="",
            num_disk_slots=0,
            payload_bytes=plan.info.block_bytes,
        )

    def setup(self, instance_id: int) -> InstanceSetup:
        return InstanceSetup(instance_id=instance_id, pool=self.pool)

    async def launch(self, setup: InstanceSetup) -> Engine:
        if setup.instance_id in self._failing:
            raise EngineFailure("no luck")
        return await self._plan.engine.launch(setup)

    def forget(self, instance_id: int) -> None:
        pass

    def spill(self, host_slots: tuple[int, ...], disk_slots: tuple[int, ...]) -> Spilled:
        raise NotImplementedError

    async def wait_for_room(self) -> bool:
        self._num_further -= 1
        return self._num_further >= 0


class GrowingSpec(msgspec.Struct, frozen=True):
    num_further: int
    failing: tuple[int, ...] = ()

    @asynccontextmanager
    async def open(self, plan: SitePlan) -> AsyncIterator[Site]:
        yield GrowingSite(plan, self.num_further, self.failing)


@pytest.mark.parametrize(("failing", "expected"), [((), [0, 1, 2, 3]), ((2,), [0, 1, 3])])
def test_a_session_takes_in_what_its_site_has_room_for(
    failing: tuple[int, ...], expected: list[int]
) -> None:
    """One that does not come up is passed over."""

    async def run() -> list[int]:
        site = GrowingSpec(num_further=3, failing=failing)
        async with Rollout(_config(num_instances=1, site=site)) as rollout:
            groups = await rollout.generate(PROMPTS, group_size=GROUP_SIZE, sampling=SAMPLING)
            _check_texts(groups)
            return sorted(rollout._fleet.placed)

    assert asyncio.run(run()) == expected


def test_a_session_that_ends_waits_for_no_room() -> None:
    """It would wait forever."""

    class Patient(GrowingSite):
        async def wait_for_room(self) -> bool:
            await asyncio.Event().wait()
            return True

    class PatientSpec(msgspec.Struct, frozen=True):
        @asynccontextmanager
        async def open(self, plan: SitePlan) -> AsyncIterator[Site]:
            yield Patient(plan, 0, ())

    async def run() -> None:
        async with Rollout(_config(num_instances=1, site=PatientSpec())):
            await asyncio.sleep(0)

    asyncio.run(run())


def test_a_session_that_ends_waits_for_no_instance_that_does_not_come_back() -> None:
    """Its room may be gone with its node, and may never return."""

    class Forgetful(GrowingSite):
        num_launches = 0

        async def launch(self, setup: InstanceSetup) -> Engine:
            self.num_launches += 1
            if self.num_launches > 2:
                await asyncio.Event().wait()
            return await super().launch(setup)

    class ForgetfulSpec(msgspec.Struct, frozen=True):
        @asynccontextmanager
        async def open(self, plan: SitePlan) -> AsyncIterator[Site]:
            yield Forgetful(plan, 0, ())

    async def run() -> list[GroupResult]:
        async with asyncio.timeout(30), Rollout(_config(site=ForgetfulSpec())) as rollout:
            engine = rollout._fleet.placed[0].engine
            assert engine is not None
            work = asyncio.create_task(
                rollout.generate(PROMPTS, group_size=GROUP_SIZE, sampling=SAMPLING)
            )
            await _after(rollout, 100)
            await engine.close()
            return await work

    _check_texts(asyncio.run(run()))
