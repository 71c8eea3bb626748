"""The public API over the scripted engine: texts, order, cancelling, weights, bad input."""

import asyncio
from pathlib import Path

import pytest

from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import scripted_output
from seer.errors import EngineFailure, InvalidInput, RolloutCancelled
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult, RolloutProgress
from seer.rollout.rollout import Rollout
from seer.rollout.sync import SyncRollout
from seer.rollout.trace import replay
from seer.scheduling.placement import PlacementConfig
from seer.scheduling.policies import DIVIDED_POLICY_NAMES, POLICY_NAMES
from seer.types import FinishReason, SamplingParams, WeightUpdate

SPEC = ScriptedSpec(num_blocks=24, max_length=90)
SAMPLING = SamplingParams(seed=3, max_tokens=80)
TEXTS = [f"Prompt number {i}, {'a little longer ' * i}" for i in range(6)]


def _config(policy: str = "divided", spec: ScriptedSpec = SPEC, **changes: object) -> RolloutConfig:
    settings = {
        "engine": spec,
        "policy": policy,
        "chunk_size": 16,
        "placement": PlacementConfig(max_spread=1, pull_gap_tokens=0),
        "pool": PoolConfig(host_bytes=1 << 20),
        **changes,
    }
    return RolloutConfig(**settings)  # type: ignore[arg-type]


def _expected(group: int, member: int) -> list[int]:
    return scripted_output(SPEC.shape, SAMPLING.seed, group, member)[: SAMPLING.max_tokens]


PROMPTS_OF_KNOWN_LENGTH = [
    PromptItem(prompt=text, known_lengths=tuple(len(_expected(i, m)) for m in range(4)))
    for i, text in enumerate(TEXTS)
]


def _check_texts(groups: list[GroupResult]) -> None:
    for i, group in enumerate(groups):
        assert group.prompt_id == str(i)
        assert [c.member for c in group.completions] == list(range(len(group.completions)))
        for completion in group.completions:
            expected = _expected(i, completion.member)
            assert completion.output_token_ids == expected
            assert len(completion.logprobs) == len(expected)
            stopped = expected[-1] == 0
            reason = FinishReason.STOP if stopped else FinishReason.LENGTH
            assert completion.finish_reason is reason
            assert 0 <= completion.started_s <= completion.finished_s


@pytest.mark.parametrize("chunk_size", [1, 16, None])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_every_policy_gives_the_same_texts(
    policy: str, chunk_size: int | None, tmp_path: Path
) -> None:
    """Texts do not depend on policy or chunks, and the trace replays to the same actions."""

    async def rollout() -> None:
        config = _config(policy, chunk_size=chunk_size, trace_path=tmp_path / "trace.jsonl")
        async with Rollout(config) as r:
            groups = await r.generate(PROMPTS_OF_KNOWN_LENGTH, group_size=4, sampling=SAMPLING)
            _check_texts(groups)
            metrics = r.metrics()
        assert metrics.num_requests == 24
        assert metrics.output_tokens == sum(
            len(c.output_token_ids) for g in groups for c in g.completions
        )
        if policy in DIVIDED_POLICY_NAMES:
            assert (metrics.preemptions, metrics.reprefilled_tokens) == (0, 0)

    asyncio.run(rollout())
    assert replay(tmp_path / "trace.jsonl") > 0


def test_kv_moves_between_instances_through_both_tiers() -> None:
    """Tight KV and a small host tier: KV is exported, spilled, loaded; no text changes."""
    spec = ScriptedSpec(num_blocks=12, max_length=90)

    async def rollout() -> None:
        pool = PoolConfig(host_bytes=3000, disk_bytes=1 << 20)
        async with Rollout(_config(spec=spec, pool=pool)) as r:
            _check_texts(await r.generate(TEXTS, group_size=4, sampling=SAMPLING))
            metrics = r.metrics()
        assert metrics.kv_bytes_moved > 0
        assert metrics.preemptions == 0

    asyncio.run(rollout())


def test_the_baseline_preempts_under_the_same_memory() -> None:
    """Whole groups with no reservation: the engines preempt and compute again."""
    spec = ScriptedSpec(num_blocks=12, max_length=90)

    async def rollout() -> None:
        async with Rollout(_config("group_round_robin", spec)) as r:
            _check_texts(await r.generate(TEXTS, group_size=4, sampling=SAMPLING))
            assert r.metrics().preemptions > 0
            assert r.metrics().reprefilled_tokens > 0

    asyncio.run(rollout())


def test_groups_come_as_they_finish_with_their_metadata() -> None:
    """`stream` yields each group once; ids and metadata are those of its prompt."""
    items = [
        PromptItem(prompt=[5, 6, 7], prompt_id="ids", metadata={"n": 1}),
        PromptItem(prompt=[{"role": "user", "content": "hi"}], prompt_id="chat"),
        PromptItem(prompt="text", prompt_id="text", metadata={"n": 3}, sampling_index=0),
    ]

    async def rollout() -> None:
        async with Rollout(_config()) as r:
            seen = {}
            async for group in r.stream(items, group_size=2, sampling=SAMPLING):
                seen[group.prompt_id] = group
        assert {k: g.metadata for k, g in seen.items()} == {
            "ids": {"n": 1},
            "chat": {},
            "text": {"n": 3},
        }
        assert seen["ids"].prompt_token_ids == [5, 6, 7]
        texts = [[c.output_token_ids for c in seen[k].completions] for k in ("ids", "text")]
        assert texts[0] == texts[1], "the same sampling index draws the same"

    asyncio.run(rollout())


def test_progress_is_reported_up_to_the_end() -> None:
    """Snapshots never go back and the last one shows everything finished."""
    seen: list[RolloutProgress] = []

    async def rollout() -> None:
        async with Rollout(_config()) as r:
            groups = await r.generate(
                TEXTS, group_size=4, sampling=SAMPLING, on_progress=seen.append
            )
        total = sum(len(c.output_token_ids) for g in groups for c in g.completions)
        last = seen[-1]
        assert (last.num_finished_groups, last.num_finished_requests) == (6, 24)
        assert last.num_output_tokens == total
        assert last.tail_s is not None
        finished = [p.num_finished_requests for p in seen]
        assert finished == sorted(finished)
        assert all(i.is_alive and i.used_kv_tokens >= 0 for p in seen for i in p.instances)

    asyncio.run(rollout())


def test_leaving_early_cancels_the_rest_and_the_session_goes_on() -> None:
    """Breaking out of `stream` aborts what is left; the next call is not disturbed."""
    spec = ScriptedSpec(num_blocks=24, min_length=50, max_length=90, step_time_s=0.002)

    async def rollout() -> None:
        async with Rollout(_config(spec=spec)) as r:
            stream = r.stream(TEXTS, group_size=4, sampling=SAMPLING)
            async for _ in stream:
                break
            await stream.aclose()
            again = await r.generate(TEXTS[:1], group_size=2, sampling=SAMPLING)
        expected = [scripted_output(spec.shape, 3, 0, m)[:80] for m in range(2)]
        assert [c.output_token_ids for c in again[0].completions] == expected

    asyncio.run(rollout())


def test_cancel_raises_where_the_groups_are_awaited() -> None:
    """`cancel` ends a running call with RolloutCancelled."""
    spec = ScriptedSpec(num_blocks=24, min_length=50, max_length=90, step_time_s=0.002)

    async def rollout() -> None:
        async with Rollout(_config(spec=spec)) as r:
            call = asyncio.create_task(r.generate(TEXTS, group_size=4, sampling=SAMPLING))
            await asyncio.sleep(0.05)
            r.cancel()
            with pytest.raises(RolloutCancelled):
                await call

    asyncio.run(rollout())


def test_two_calls_at_once_each_get_their_own_groups() -> None:
    """Concurrent calls share the instances and nothing else."""

    async def rollout() -> None:
        async with Rollout(_config()) as r:
            calls = [r.generate(TEXTS[:3], group_size=2, sampling=SAMPLING) for _ in range(2)]
            for groups in await asyncio.gather(*calls):
                _check_texts(groups)

    asyncio.run(rollout())


def test_weights_change_between_calls_only(tmp_path: Path) -> None:
    """New weights are refused during a call, and used (with fresh KV) in the next one."""
    spec = ScriptedSpec(num_blocks=24, max_length=90, step_time_s=0.001)

    async def rollout() -> None:
        update = WeightUpdate(version=1, path=str(tmp_path))
        async with Rollout(_config(spec=spec)) as r:
            call = asyncio.create_task(r.generate(TEXTS, group_size=4, sampling=SAMPLING))
            await asyncio.sleep(0.02)
            with pytest.raises(EngineFailure, match="in progress"):
                await r.update_weights(update)
            _check_texts(await call)
            await r.update_weights(update)
            _check_texts(await r.generate(TEXTS, group_size=4, sampling=SAMPLING))

    asyncio.run(rollout())


def test_the_sync_wrapper_does_the_same() -> None:
    """Plain calls: generate, stream with early exit, errors, metrics."""
    with SyncRollout(_config()) as r:
        _check_texts(r.generate(TEXTS, group_size=2, sampling=SAMPLING))
        for group in r.stream(TEXTS, group_size=2, sampling=SAMPLING):
            assert group.completions
            break
        with pytest.raises(InvalidInput, match="group_size"):
            r.generate(TEXTS, group_size=0, sampling=SAMPLING)
        assert r.metrics().output_tokens > 0


def test_a_failing_launch_is_reported_and_leaves_nothing_behind() -> None:
    """EngineFailure of a launch comes out of entering the session, sync and async."""
    config = _config(spec=ScriptedSpec(launch_failure="no such device"))
    with pytest.raises(EngineFailure, match="no such device"), SyncRollout(config):
        pass


BAD_CALLS = {
    "prompts: .*at least one prompt": {"prompts": []},
    "group_size": {"group_size": 0},
    "prompt 1.*at least one token": {"prompts": ["fine", ""]},
    "prompt 0: token 4000": {"prompts": [[4000]]},
    "prompt 0.*context": {"prompts": [[1] * 5000]},
    "kv_tokens|max_tokens": {"sampling": SamplingParams(max_tokens=1000)},
}


@pytest.mark.parametrize("message", BAD_CALLS)
def test_bad_calls_are_refused_before_anything_starts(message: str) -> None:
    """Each names the field or the prompt, and what is allowed; the session stays usable."""
    arguments = {"prompts": TEXTS, "group_size": 2, "sampling": SAMPLING, **BAD_CALLS[message]}

    async def rollout() -> None:
        async with Rollout(_config()) as r:
            with pytest.raises(InvalidInput, match=message):
                await r.generate(**arguments)  # type: ignore[arg-type]
            _check_texts(await r.generate(TEXTS[:1], group_size=1, sampling=SAMPLING))

    asyncio.run(rollout())


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_instances", 0), ("policy", "fastest"), ("chunk_size", 0), ("cpus", ((0,),))],
)
def test_bad_settings_are_refused(field: str, value: object) -> None:
    """RolloutConfig names the field and what is allowed."""
    with pytest.raises(InvalidInput, match=f"{field}: got"):
        _config(**{field: value})  # type: ignore[arg-type]
