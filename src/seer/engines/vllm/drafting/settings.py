"""Drafting inside vLLM as settings, and how they reach the worker that drafts. Imports no vLLM."""

import dataclasses
from typing import Any

import msgspec

from seer.costmodel.step_time import StepTime, SurfaceStepTime
from seer.drafting.budget import Budget, SeerBudget
from seer.drafting.config import DraftingConfig, make_budget
from seer.errors import InvalidInput

PROPOSER = "seer.engines.vllm.drafting.proposer.GroupDraftProposer"
CONFIG_KEY = "seer_drafting"
"""Of vLLM's `additional_config`."""


class VllmDrafting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the worker of one vLLM instance drafts. Raises InvalidInput on a bad value."""

    drafting: DraftingConfig
    """Which budget, and where the draft server is. vLLM verifies chains only, so the budgets draft
    no trees here."""
    uniform: bool = False
    """Every request gets as many guesses as any may have, or nobody gets one: filled up with
    guesses that will be wrong. Full CUDA graphs are recorded for that one shape."""
    repair: bool = True
    """Repair vLLM's rejection sampler where it is known to be wrong; see `repair.py`."""

    def __post_init__(self) -> None:
        if not self.drafting.is_on:
            raise InvalidInput("drafting", self.drafting.budget, "allowed: another than off")

    @property
    def max_draft_tokens(self) -> int:
        """Most guesses of a request in a step."""
        return chain_budget(self.drafting.budget, SurfaceStepTime(fixed_s=1.0)).max_nodes(1)

    def engine_arguments(self) -> dict[str, Any]:
        """Arguments of vLLM's engine that turn this on."""
        return {
            "speculative_config": {
                "method": "custom_class",
                "model": PROPOSER,
                "num_speculative_tokens": self.max_draft_tokens,
            },
            "additional_config": {CONFIG_KEY: msgspec.to_builtins(self)},
        }


def from_additional_config(config: Any) -> VllmDrafting:
    """The settings in vLLM's `additional_config`. Raises InvalidInput when there are none."""
    try:
        return msgspec.convert(config[CONFIG_KEY], VllmDrafting)
    except (KeyError, TypeError, msgspec.ValidationError) as error:
        allowed = f"allowed: {CONFIG_KEY} with the settings of VllmDrafting ({error})"
        raise InvalidInput("additional_config", config, allowed) from error


def chain_budget(name: str, step_time: StepTime | None) -> Budget:
    """The budget of that name, without trees."""
    budget = make_budget(name, step_time)
    if isinstance(budget, SeerBudget):
        return dataclasses.replace(budget, max_requests_tree=0)
    return budget
