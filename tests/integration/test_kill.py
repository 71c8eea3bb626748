"""Instances die by SIGKILL in mid-rollout: nothing that was generated and reported is lost."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec
from seer.engines.process_engine import ProcessEngine
from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import scripted_output
from seer.errors import InstanceLost
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.events import ChunkFinished, FinishRequest, StartChunk
from seer.rollout.results import GroupResult
from seer.rollout.rollout import Rollout
from seer.rollout.trace import read_trace, replay
from seer.types import SamplingParams
from support.tiny_tokenizer import make_tiny_model_directory

SCRIPTED = ScriptedSpec(num_blocks=40, min_length=60, max_length=90, step_time_s=0.003)
SAMPLING = SamplingParams(seed=5, max_tokens=90)
PROMPTS = [f"Prompt number {i} of several" for i in range(4)]
GROUP_SIZE = 4


def _config(trace: Path, *, restart: bool, spec: ScriptedSpec | LocalSpec) -> RolloutConfig:
    return RolloutConfig(
        engine=ProcessSpec(inner=spec),
        chunk_size=8,
        pool=PoolConfig(host_bytes=1 << 22),
        restart_instances=restart,
        trace_path=trace,
    )


def _kill(rollout: Rollout, instance_id: int) -> None:
    engine = rollout._fleet.placed[instance_id].engine
    assert isinstance(engine, ProcessEngine)
    os.kill(engine.pid, signal.SIGKILL)


async def _rollout_with_kill(
    config: RolloutConfig, prompts: list[list[int]] | list[str], after_tokens: int
) -> tuple[list[GroupResult], int]:
    """Kill instance 0 once `after_tokens` tokens have come; groups and instances lost."""
    async with Rollout(config) as rollout:
        is_killed = False

        def kill_once(_: object) -> None:
            nonlocal is_killed
            if not is_killed and rollout._driver.store.num_tokens >= after_tokens:
                is_killed = True
                _kill(rollout, 0)

        groups = await rollout.generate(
            prompts, group_size=GROUP_SIZE, sampling=SAMPLING, on_progress=kill_once
        )
        return groups, rollout.metrics().instances_lost


def _check_trace(trace: Path) -> None:
    """Each request finishes once, no ended chunk runs again, and the trace replays."""
    finished: Counter[object] = Counter()
    ended: set[tuple[object, int]] = set()
    for record in read_trace(trace):
        if isinstance(record.event, ChunkFinished):
            ended.add((record.event.request_id, record.event.chunk_index))
        for action in record.actions:
            if isinstance(action, FinishRequest):
                finished[action.request_id] += 1
            if isinstance(action, StartChunk):
                assert (action.request_id, action.chunk_index) not in ended
    assert set(finished.values()) == {1}
    assert len(finished) == len(PROMPTS) * GROUP_SIZE
    assert replay(trace) > 0


@pytest.mark.parametrize("restart", [True, False], ids=["restarted", "elsewhere"])
def test_a_killed_instance_costs_time_only(tmp_path: Path, *, restart: bool) -> None:
    """All texts come out as if nothing had happened, each request once."""
    trace = tmp_path / "trace.jsonl"
    config = _config(trace, restart=restart, spec=SCRIPTED)
    groups, lost = asyncio.run(_rollout_with_kill(config, PROMPTS, after_tokens=400))
    assert lost == 1
    for i, group in enumerate(groups):
        for completion in group.completions:
            expected = scripted_output(SCRIPTED.shape, SAMPLING.seed, i, completion.member)
            assert completion.output_token_ids == expected[: SAMPLING.max_tokens]
            assert len(completion.logprobs) == len(completion.output_token_ids)
    _check_trace(trace)


def test_a_killed_instance_of_a_real_model_gives_the_same_tokens(tmp_path: Path) -> None:
    """float32, a tiny Llama in child processes: equal to the undisturbed rollout."""
    make_tiny_model_directory(tmp_path)
    spec = LocalSpec(model=str(tmp_path), dtype="float32", kv_tokens=2048)
    prompts = [[3 + i, 9, 40, 77, 5] for i in range(len(PROMPTS))]
    trace = tmp_path / "trace.jsonl"

    async def undisturbed() -> list[GroupResult]:
        config = _config(tmp_path / "other.jsonl", restart=True, spec=spec)
        async with Rollout(config) as rollout:
            return await rollout.generate(prompts, group_size=GROUP_SIZE, sampling=SAMPLING)

    config = _config(trace, restart=True, spec=spec)
    groups, lost = asyncio.run(_rollout_with_kill(config, prompts, after_tokens=300))
    assert lost == 1
    expected = asyncio.run(undisturbed())
    assert _tokens(groups) == _tokens(expected)
    _check_trace(trace)


def test_without_instances_the_user_is_told(tmp_path: Path) -> None:
    """The only instance dies and may not restart: InstanceLost, not silence."""

    async def rollout() -> None:
        config = RolloutConfig(
            engine=ProcessSpec(inner=SCRIPTED),
            num_instances=1,
            restart_instances=False,
            trace_path=tmp_path / "trace.jsonl",
        )
        async with Rollout(config) as r:
            call = asyncio.create_task(
                r.generate(PROMPTS, group_size=GROUP_SIZE, sampling=SAMPLING)
            )
            await asyncio.sleep(0.2)
            _kill(r, 0)
            with pytest.raises(InstanceLost, match="no instance is left"):
                await call

    asyncio.run(rollout())


def _tokens(groups: list[GroupResult]) -> list[list[list[int]]]:
    return [[c.output_token_ids for c in group.completions] for group in groups]
