"""Settings on their way to vLLM's worker, and step times learned there."""

import msgspec
import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.drafting.config import DraftingConfig
from seer.engines.vllm.drafting.learned_time import LearnedStepTime
from seer.engines.vllm.drafting.settings import VllmDrafting, chain_budget, from_additional_config
from seer.errors import InvalidInput


def settings(budget: str) -> VllmDrafting:
    return VllmDrafting(drafting=DraftingConfig(budget=budget, server="ipc:///x"), uniform=True)


@pytest.mark.parametrize(("budget", "most"), [("fixed:3", 3), ("marginal", 8), ("seer", 8)])
def test_settings_reach_the_worker(budget: str, most: int) -> None:
    """What goes through vLLM's configuration as JSON comes out the same."""
    arguments = settings(budget).engine_arguments()
    assert arguments["speculative_config"]["num_speculative_tokens"] == most
    carried = msgspec.json.decode(msgspec.json.encode(arguments["additional_config"]))
    assert from_additional_config(carried) == settings(budget)


@pytest.mark.parametrize("budget", ["fixed:3", "marginal", "seer"])
def test_budgets_make_chains(budget: str) -> None:
    """VLLM verifies no trees, however few requests there are."""
    assert chain_budget(budget, SurfaceStepTime(fixed_s=1.0)).top_k(1) == 1


def test_missing_settings_are_named() -> None:
    """A proposer without ours, and drafting that is off."""
    for config in ({}, None, {"seer_drafting": {"drafting": 3}}):
        with pytest.raises(InvalidInput, match="seer_drafting"):
            from_additional_config(config)
    with pytest.raises(InvalidInput, match="off"):
        settings("off")


def test_step_times_are_learned_from_what_ran() -> None:
    """After some steps of different sizes, times of others are near what they take."""
    real = SurfaceStepTime(fixed_s=0.01, per_token_s=0.001, per_context_token_s=1e-7)
    learned = LearnedStepTime()
    assert learned.step_s(4, 40, 100) == learned.step_s(4, 4, 100)
    for step in range(64):
        work = 1 + step % 4, (1 + step % 4) * (1 + step % 5), 200 + 40 * step
        disturbed = 3.0 if step % 7 == 3 else 1.0
        learned.add(*work, disturbed * real.step_s(*work))
    assert learned.step_s(4, 10, 1500) == pytest.approx(real.step_s(4, 10, 1500), rel=0.15)


def test_steps_that_are_all_alike_teach_nothing() -> None:
    """Too few different ones to fit: all steps stay as long as each other."""
    learned = LearnedStepTime()
    for _ in range(100):
        learned.add(2, 4, 100, 0.01)
    assert learned.step_s(4, 40, 100) == learned.step_s(4, 4, 100)
