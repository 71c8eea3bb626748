"""Rollouts on vLLM instances: what they report is the model's, and nothing outlives them."""

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("vllm")

import psutil
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from seer.engines.process import ProcessSpec
from seer.engines.process_engine import ProcessEngine
from seer.engines.vllm.spec import VllmSpec
from seer.errors import InstanceLost
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.engine import InstanceSetup
from seer.rollout.results import Completion, GroupResult
from seer.rollout.rollout import Rollout
from seer.types import FinishReason, SamplingParams, WeightUpdate
from support.subjects import Subject, ignore

SAMPLING = SamplingParams(temperature=0.8, max_tokens=150, seed=5)
PROMPTS = ("Hello there, how are you", "12 + 30 = ", "A rather longer prompt. " * 3)
TOLERANCE = 1e-3


def _spec(model: Path) -> ProcessSpec:
    return ProcessSpec(inner=VllmSpec(model=str(model), dtype="float32", kv_tokens=1024))


def _other_weights(model: Path, directory: Path) -> Path:
    """The model, each weight changed a little."""
    shutil.copytree(model, directory)
    path = directory / "model.safetensors"
    weights = {name: t + 0.05 * torch.randn_like(t) for name, t in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})
    return directory


def _worst_difference(model: Path, groups: Sequence[GroupResult]) -> float:
    """Between the log-probabilities reported and those of transformers."""
    reference = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    worst = 0.0
    for group in groups:
        for each in group.completions:
            expected = _score(reference, group.prompt_token_ids, each)
            difference = (torch.tensor(each.logprobs) - expected).abs().max()
            worst = max(worst, float(difference))
    return worst


def _score(reference: torch.nn.Module, prompt: list[int], each: Completion) -> torch.Tensor:
    tokens = torch.tensor([prompt + each.output_token_ids])
    with torch.no_grad():
        logits = reference(tokens).logits[0, len(prompt) - 1 : -1] / SAMPLING.temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    return logprobs.gather(-1, torch.tensor(each.output_token_ids)[:, None])[:, 0]


def test_two_instances(tiny_model: Path, tmp_path: Path) -> None:
    """Every log-probability is the model's, in chunks, on two instances, also after an update.

    A stop string ends a response with the token that completes it.
    """
    other = _other_weights(tiny_model, tmp_path / "other")
    stopping = SamplingParams(temperature=0.8, max_tokens=150, seed=5, stop=("e", "t"))
    config = RolloutConfig(
        engine=_spec(tiny_model),
        num_instances=2,
        policy="seer",
        chunk_size=32,
        pool=PoolConfig(host_bytes=0),
    )

    async def run() -> list[list[GroupResult]]:
        async with Rollout(config) as rollout:
            first = await rollout.generate(PROMPTS, group_size=4, sampling=SAMPLING)
            again = await rollout.generate(PROMPTS, group_size=4, sampling=SAMPLING)
            stopped = await rollout.generate(PROMPTS, group_size=4, sampling=stopping)
            await rollout.update_weights(WeightUpdate(version=1, path=str(other)))
            updated = await rollout.generate(PROMPTS, group_size=4, sampling=SAMPLING)
            return [first, again, stopped, updated]

    first, again, stopped, updated = asyncio.run(run())
    assert _worst_difference(tiny_model, first) < TOLERANCE
    assert _worst_difference(tiny_model, again) < TOLERANCE
    assert _worst_difference(other, updated) < TOLERANCE
    texts = [each.text for group in stopped for each in group.completions]
    ended = [
        each.finish_reason is FinishReason.STOP for group in stopped for each in group.completions
    ]
    assert any(ended)
    assert not any("e" in text[:-1] or "t" in text[:-1] for text in texts)


def test_nothing_outlives_a_killed_instance(tiny_model: Path) -> None:
    """SIGKILL to the instance's process ends vLLM's core and worker too."""

    async def kill() -> list[psutil.Process]:
        engine = await _spec(tiny_model).launch(InstanceSetup(instance_id=0))
        assert isinstance(engine, ProcessEngine)
        below = psutil.Process(engine.pid).children(recursive=True)
        os.kill(engine.pid, signal.SIGKILL)
        subject = Subject(spec=_spec(tiny_model), weights_path=str(tiny_model))
        with pytest.raises(InstanceLost):
            await engine.run(subject.chunk(0, max_tokens=100), ignore)
        await engine.close()
        return below

    below = asyncio.run(kill())
    assert len(below) >= 2
    _, alive = psutil.wait_procs(below, timeout=60)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []
