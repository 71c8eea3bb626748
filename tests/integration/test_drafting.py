"""Drafting in whole rollouts: instances in processes, a draft server between them, its loss."""

import asyncio
import os
import signal

import pytest

from seer.drafting.config import DraftingConfig
from seer.drafting.messages import GroupHave, GroupKey
from seer.drafting.remote_server import RemoteServer
from seer.engines.process import ProcessSpec
from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import scripted_output
from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout import local_site
from seer.rollout.config import RolloutConfig
from seer.rollout.draft_service import DraftService
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.results import GroupResult, RolloutProgress
from seer.rollout.rollout import Rollout
from seer.types import EngineInfo, SamplingParams

SCRIPTED = ScriptedSpec(
    vocab_size=4, num_blocks=40, min_length=90, max_length=120, step_time_s=0.005
)
SAMPLING = SamplingParams(seed=5, max_tokens=120)
PROMPTS = [f"Prompt number {i} of several" for i in range(4)]
GROUP_SIZE = 4


class Watched:
    """Keeps the draft service that a rollout starts."""

    def __init__(self) -> None:
        self.service: DraftService | None = None

    async def start(self, vocab_size: int) -> DraftService:
        self.service = await DraftService.start(vocab_size)
        return self.service


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The service of the next rollout."""
    watched = Watched()
    monkeypatch.setattr(local_site, "DraftService", watched)
    return watched


def _config(budget: str, num_instances: int = 2) -> RolloutConfig:
    return RolloutConfig(
        engine=ProcessSpec(inner=SCRIPTED),
        num_instances=num_instances,
        chunk_size=16,
        pool=PoolConfig(host_bytes=1 << 22),
        drafting=DraftingConfig(budget=budget, fetch_period_s=0.02),
    )


async def _generate(rollout: Rollout, watched: Watched, *, kill: bool) -> list[GroupResult]:
    """All groups; the server is killed, or looked into, when a third of the tokens have come."""
    is_done = False

    def act(now: RolloutProgress) -> None:
        nonlocal is_done
        if not is_done and now.num_output_tokens > 500:
            is_done = True
            assert watched.service is not None
            if kill:
                os.kill(watched.service.pid, signal.SIGKILL)
            else:
                _check_shared(watched.service)

    groups = await rollout.generate(
        PROMPTS, group_size=GROUP_SIZE, sampling=SAMPLING, on_progress=act
    )
    assert is_done
    return groups


def _check_shared(service: DraftService) -> None:
    """Several members of a group have tokens at the server."""
    link = RemoteServer(service.address)
    try:
        have = GroupHave(key=GroupKey(0), ttl_s=5.0, lengths={})
        [delta] = link.fetch([have]).deltas
        assert len({update.request for update in delta.updates}) > 1
    finally:
        link.close()


def _check(groups: list[GroupResult], metrics: RolloutMetrics) -> None:
    for i, group in enumerate(groups):
        for completion in group.completions:
            foretold = scripted_output(SCRIPTED.shape, 5, i, completion.member)[:120]
            assert completion.output_token_ids == foretold
    assert 0 < metrics.accepted_tokens < metrics.drafted_tokens
    assert metrics.acceptance_length > 1
    assert 0 < metrics.draft_time_share < 1
    shares = metrics.acceptance_by_position
    assert shares
    assert all(0 <= share <= 1 for share in shares)


@pytest.mark.parametrize("budget", ["fixed:4", "marginal", "seer"])
def test_instances_draft_from_each_other(budget: str, watched: Watched) -> None:
    """Texts are those without drafts; what is written reaches the server; guesses come true."""

    async def run() -> None:
        async with Rollout(_config(budget)) as rollout:
            _check(await _generate(rollout, watched, kill=False), rollout.metrics())

    asyncio.run(run())


def test_a_killed_draft_server_costs_no_token(watched: Watched) -> None:
    """The rollout goes on with the same texts, and another server is there in the end."""

    async def run() -> None:
        async with Rollout(_config("fixed:4")) as rollout:
            assert watched.service is not None
            first = watched.service.pid
            _check(await _generate(rollout, watched, kill=True), rollout.metrics())
            for _ in range(200):
                if watched.service.pid != first:
                    break
                await asyncio.sleep(0.05)
            assert watched.service.pid != first
            groups = await rollout.generate(PROMPTS, group_size=2, sampling=SAMPLING)
            assert len(groups) == len(PROMPTS)

    asyncio.run(run())


def test_one_instance_needs_no_server(watched: Watched) -> None:
    """A single instance drafts from its own trees."""

    async def run() -> None:
        async with Rollout(_config("fixed:4", num_instances=1)) as rollout:
            groups = await rollout.generate(PROMPTS, group_size=GROUP_SIZE, sampling=SAMPLING)
            _check(groups, rollout.metrics())

    asyncio.run(run())
    assert watched.service is None


class Unverifying(ScriptedSpec, frozen=True, kw_only=True):
    """An engine that cannot verify drafts."""

    def describe(self) -> EngineInfo:
        info = super().describe()
        return EngineInfo(**{name: getattr(info, name) for name in info.__struct_fields__[:-1]})


def test_drafting_needs_an_engine_that_verifies() -> None:
    """It is refused before anything is started; without drafting the engine is fine."""
    config = RolloutConfig(engine=Unverifying(), drafting=DraftingConfig(budget="seer"))
    with pytest.raises(InvalidInput, match=r"drafting: got 'seer'; allowed: off, as this engine"):
        Rollout(config)
    Rollout(RolloutConfig(engine=Unverifying()))
