"""What an engine is asked to sample for the check, in three ways that must not differ."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from seer.drafting.config import OFF, DraftingConfig
from seer.engines.fidelity.response import Response, Sampled
from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.engine import EngineSpec
from seer.rollout.events import StartChunk
from seer.rollout.prompts import PromptContent
from seer.rollout.rollout import Rollout
from seer.rollout.trace import read_trace
from seer.scheduling.placement import PlacementConfig
from seer.types import RequestId, SamplingParams

PLAIN = "plain"
DRAFTS = "drafts"
MOVES = "moves"
ARMS = (PLAIN, DRAFTS, MOVES)
"""Whole responses without drafts; with drafts; with drafts, in chunks, on several instances."""

_POOL_BYTES = 256 * 2**20


class CheckPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is sampled. Raises InvalidInput on a value that would leave nothing to test."""

    sampling: SamplingParams
    """Of every response but for the seed; `max_tokens` is the length of each."""
    num_seeds: int = 20
    group_size: int = 4
    drafting: str = "fixed:4"
    chunk_size: int = 8
    """Tokens of a chunk where responses are divided."""
    num_instances: int = 2
    """Where responses move."""

    def __post_init__(self) -> None:
        for name, least in (
            ("num_seeds", 1),
            ("group_size", 1),
            ("chunk_size", 1),
            ("num_instances", 2),
        ):
            if getattr(self, name) < least:
                raise InvalidInput(name, getattr(self, name), f"allowed: an integer >= {least}")
        if self.sampling.temperature == 0:
            allowed = "allowed: above 0, as at 0 nothing is drawn"
            raise InvalidInput("temperature", self.sampling.temperature, allowed)
        if not DraftingConfig(budget=self.drafting).is_on:
            raise InvalidInput("drafting", self.drafting, f"allowed: another than {OFF}")

    def max_running(self, arm: str, num_prompts: int, most: int) -> int:
        """Requests that an instance may run at once, up to `most`.

        Where requests are to move it has room for fewer than half of its share: the others wait,
        and go on where room comes first.
        """
        if arm != MOVES:
            return most
        return min(most, max(1, num_prompts * self.group_size // (2 * self.num_instances) - 1))


async def sample_arm(
    arm: str, spec: EngineSpec, plan: CheckPlan, prompts: Sequence[PromptContent]
) -> Sampled:
    """Let the engine generate with all seeds. Raises what a rollout raises.

    The seeds of two arms differ: equal ones give an engine with keyed draws the same texts, which
    would tell the same thing twice.
    """
    first_seed = plan.sampling.seed + ARMS.index(arm) * plan.num_seeds
    with tempfile.TemporaryDirectory(prefix="seer-check-") as directory:
        trace = Path(directory) / "trace.jsonl"
        config = _config(arm, spec, plan, trace)
        responses: list[Response] = []
        async with Rollout(config) as rollout:
            for seed in range(first_seed, first_seed + plan.num_seeds):
                sampling = msgspec.structs.replace(plan.sampling, seed=seed, ignore_eos=True)
                responses += await _responses(rollout, plan, sampling, prompts)
            metrics = rollout.metrics()
        return Sampled(
            arm=arm,
            responses=responses,
            num_drafted=metrics.drafted_tokens,
            num_accepted=metrics.accepted_tokens,
            num_moves=_count_moves(trace),
        )


def _config(arm: str, spec: EngineSpec, plan: CheckPlan, trace: Path) -> RolloutConfig:
    moves = arm == MOVES
    return RolloutConfig(
        engine=spec,
        num_instances=plan.num_instances if moves else 1,
        policy="divided",
        chunk_size=plan.chunk_size if moves else None,
        placement=PlacementConfig(max_spread=0, pull_gap_tokens=0),
        pool=PoolConfig(host_bytes=_POOL_BYTES if moves else 0),
        drafting=DraftingConfig(budget=OFF if arm == PLAIN else plan.drafting),
        trace_path=trace,
    )


async def _responses(
    rollout: Rollout, plan: CheckPlan, sampling: SamplingParams, prompts: Sequence[PromptContent]
) -> list[Response]:
    groups = await rollout.generate(prompts, group_size=plan.group_size, sampling=sampling)
    return [
        Response(
            prompt_token_ids=group.prompt_token_ids,
            token_ids=each.output_token_ids,
            logprobs=each.logprobs,
        )
        for group in groups
        for each in group.completions
    ]


def _count_moves(trace: Path) -> int:
    places: dict[RequestId, int] = {}
    count = 0
    for record in read_trace(trace):
        for action in record.actions:
            if isinstance(action, StartChunk):
                before = places.get(action.request_id, action.instance_id)
                count += before != action.instance_id
                places[action.request_id] = action.instance_id
    return count
