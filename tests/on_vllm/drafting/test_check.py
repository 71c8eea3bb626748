"""`seer check` on vLLM itself: it tells the engine with our repair from the one without."""

import asyncio

import pytest

pytest.importorskip("vllm")

from seer.engines.fidelity.arms import DRAFTS, CheckPlan
from seer.engines.fidelity.check import judge_all, sample_all
from seer.engines.fidelity.reference import Reference
from seer.engines.fidelity.report import ArmReport
from seer.engines.process import ProcessSpec
from seer.engines.vllm.spec import VllmSpec
from seer.types import SamplingParams
from support.tiny_models import make_tiny_model
from support.tiny_tokenizer import make_tiny_model_directory

PLAIN = SamplingParams(temperature=0.5, max_tokens=40)
FILTERED = SamplingParams(temperature=0.5, top_k=30, max_tokens=40)
PROMPTS = ("abcabcabc", "to be or not to be")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With heads that are 32 wide, the least that vLLM's kernels take."""
    directory = make_tiny_model_directory(tmp_path_factory.mktemp("model"))
    make_tiny_model("qwen3", directory)
    return str(directory)


def check(spec: VllmSpec, sampling: SamplingParams) -> ArmReport:
    """The arm with drafts."""
    plan = CheckPlan(sampling=sampling, num_seeds=6, group_size=8, drafting="fixed:3")
    specs = {DRAFTS: ProcessSpec(inner=spec)}
    sampled = asyncio.run(sample_all(specs, plan, PROMPTS, print))
    reference = Reference(spec.model, spec.dtype)
    (arm,) = judge_all(sampled, plan, spec.dtype, reference.score, 0.001).arms
    return arm


def test_drafts_are_verified_rightly_with_the_repair(model: str) -> None:
    """Guesses come right and wrong, and the tokens are the model's all the same."""
    arm = check(VllmSpec(model=model, dtype="float32"), FILTERED)
    assert 0 < arm.num_accepted < arm.num_drafted
    assert arm.failures == ()


def test_without_the_repair_the_check_fails(model: str) -> None:
    """Tokens and log-probabilities are not the model's (with filters vLLM may not survive)."""
    arm = check(VllmSpec(model=model, dtype="float32", repair_sampler=False), PLAIN)
    assert arm.ranks_p < 1e-6
    assert any("not the tokens' own" in failure for failure in arm.failures)
