"""Divided rollout changes when and where tokens are made, never which.

float32, SmolLM2-135M-Instruct, 4 prompts x 4 members x 128 tokens at T = 0.8: the same tokens for
every chunk size, number of instances and policy. Keyed sampling makes this an exact test: two runs
may differ only where the uniform number of a token lies within 1e-5 of a boundary of its CDF
(another batch shape rounds logits differently); such places are checked one by one, and counted.
"""

import asyncio
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch

from seer.costmodel.step_time import SurfaceStepTime
from seer.drafting.config import DraftingConfig
from seer.engines.keyed import uniforms
from seer.engines.local.spec import LocalSpec
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.rollout import Rollout
from seer.scheduling.placement import PlacementConfig
from seer.types import SamplingParams
from support.default_model import model_dir, reference_logits

pytestmark = pytest.mark.model

PROMPTS = [
    "Write a story about a lighthouse keeper.",
    "Explain how bread is made, step by step, and why each step matters.",
    "List ten animals and one fact about each of them.",
    "What is 17 + 25? Think aloud.",
]
MEMBERS = 4
TOKENS = 128
SAMPLING = SamplingParams(temperature=0.8, max_tokens=TOKENS, ignore_eos=True, seed=11)
BOUNDARY = 1e-5

CHEAP_TO_VERIFY = SurfaceStepTime(fixed_s=0.02, per_token_s=1e-4)
"""So that budgets which weigh time verify guesses on any machine."""
Texts = dict[tuple[int, int], list[int]]


@dataclass(frozen=True)
class Run:
    """What one rollout gave."""

    prompts: list[list[int]]
    texts: Texts
    logprobs: dict[tuple[int, int], list[float]]
    metrics: RolloutMetrics


@cache
def _run(
    policy: str,
    chunk_size: int | None,
    num_instances: int,
    kv_tokens: int = 8192,
    spread: int = 0,
    *,
    drafting: str = "off",
) -> Run:
    async def rollout() -> Run:
        config = RolloutConfig(
            engine=LocalSpec(model=str(model_dir()), dtype="float32", kv_tokens=kv_tokens),
            drafting=DraftingConfig(budget=drafting, step_time=CHEAP_TO_VERIFY),
            num_instances=num_instances,
            policy=policy,
            chunk_size=chunk_size,
            placement=PlacementConfig(max_spread=spread, pull_gap_tokens=0),
            pool=PoolConfig(host_bytes=400 << 20),
            cpus=tuple(
                (i,) for i in range(num_instances)
            ),  # one thread each: no barriers to wait at
        )
        async with Rollout(config) as r:
            chats = [[{"role": "user", "content": text}] for text in PROMPTS]
            groups = await r.generate(chats, group_size=MEMBERS, sampling=SAMPLING)
            members = [(i, c) for i, g in enumerate(groups) for c in g.completions]
            return Run(
                prompts=[list(g.prompt_token_ids) for g in groups],
                texts={(i, c.member): list(c.output_token_ids) for i, c in members},
                logprobs={(i, c.member): list(c.logprobs) for i, c in members},
                metrics=r.metrics(),
            )

    return asyncio.run(rollout())


def _reference() -> Run:
    return _run("divided", None, 1)


def _tolerated_differences(got: Run, expected: Run) -> int:
    """How many texts part at a CDF boundary; fails on any other difference."""
    count = 0
    for key, tokens in got.texts.items():
        other = expected.texts[key]
        assert len(tokens) == len(other) == TOKENS
        if tokens != other:
            place = next(i for i in range(TOKENS) if tokens[i] != other[i])
            prompt = expected.prompts[key[0]]
            assert _at_boundary(prompt, other[: place + 1], tokens[place], key), (key, place)
            count += 1
    return count


def _at_boundary(prompt: list[int], output: list[int], token: int, key: tuple[int, int]) -> bool:
    """Whether the uniform number of the last output place lies at the edge of its CDF step."""
    logits = reference_logits(prompt, output)[-1].double() / SAMPLING.temperature
    cdf = torch.softmax(logits, -1).cumsum(-1).numpy()
    place = np.array([len(output) - 1], dtype=np.int64)
    uniform = uniforms(SAMPLING.seed, key[0], key[1], place)[0]
    low, high = sorted((token, output[-1]))
    return abs(cdf[low] - uniform) <= BOUNDARY and cdf[high - 1] - cdf[low] <= BOUNDARY


@pytest.mark.parametrize("num_instances", [1, 2])
@pytest.mark.parametrize("chunk_size", [None, 64, 16])
@pytest.mark.parametrize("policy", ["group_round_robin", "interleaved", "divided"])
def test_tokens_are_the_same(policy: str, chunk_size: int | None, num_instances: int) -> None:
    """Any policy, chunk size and number of instances gives the reference's tokens."""
    run = _run(policy, chunk_size, num_instances)
    assert _tolerated_differences(run, _reference()) <= 1


@pytest.mark.parametrize(
    ("drafting", "chunk_size", "num_instances"),
    [("fixed:4", None, 1), ("marginal", 64, 2), ("seer", None, 1), ("seer", 16, 2)],
)
def test_tokens_are_the_same_with_drafts(
    drafting: str, chunk_size: int | None, num_instances: int
) -> None:
    """Guessed tokens change the number of steps, not the text nor its log-probabilities."""
    run = _run("divided", chunk_size, num_instances, drafting=drafting)
    assert 0 < run.metrics.accepted_tokens < run.metrics.drafted_tokens
    assert run.metrics.acceptance_length > 1
    reference = _reference()
    assert reference.metrics.acceptance_length == 1
    assert _tolerated_differences(run, reference) <= 1
    same = [key for key in run.texts if run.texts[key] == reference.texts[key]]
    for key in same:
        assert np.abs(np.subtract(run.logprobs[key], reference.logprobs[key])).max() <= 1e-4


def test_tokens_are_the_same_when_kv_really_moves() -> None:
    """Tight KV on two instances: KV goes through the pool, the tokens stay, nothing is redone."""
    run = _run("divided", 16, 2, kv_tokens=1024)
    assert run.metrics.kv_bytes_moved > 0
    assert run.metrics.preemptions == 0
    assert run.metrics.reprefilled_tokens == 0
    assert _tolerated_differences(run, _reference()) <= 1


def test_tokens_are_the_same_when_requests_are_preempted() -> None:
    """The baseline under tight KV preempts and recomputes; the tokens stay."""
    run = _run("group_round_robin", None, 1, kv_tokens=1024)
    assert run.metrics.preemptions > 0
    assert run.metrics.reprefilled_tokens > 0
    assert _tolerated_differences(run, _reference()) <= 1


def test_a_third_of_the_kv_costs_divided_nothing() -> None:
    """KV for a third of the requests: `divided` neither preempts nor prefills anything twice."""
    per_request = TOKENS + max(len(p) for p in _reference().prompts)
    third = per_request * MEMBERS * len(PROMPTS) // 3 // 32 * 32
    divided = _run("divided", 32, 1, kv_tokens=third)
    assert (divided.metrics.preemptions, divided.metrics.reprefilled_tokens) == (0, 0)
    baseline = _run("group_round_robin", None, 1, kv_tokens=third)
    assert baseline.metrics.preemptions > 0


def test_logprobs_equal_one_full_forward() -> None:
    """Every token's log-probability equals transformers' forward over the finished text to 1e-4."""
    run = _reference()
    for key, tokens in run.texts.items():
        logits = reference_logits(run.prompts[key[0]], tokens) / SAMPLING.temperature
        expected = torch.log_softmax(logits.double(), -1).gather(1, torch.tensor(tokens)[:, None])
        error = (torch.tensor(run.logprobs[key]) - expected[:, 0]).abs().max()
        assert error <= 1e-4
