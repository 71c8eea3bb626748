"""Seer as slime's rollout function: `--rollout-function-path seer.trainers.slime.rollout.generate`.

The interface is that of slime 0.3.1 (THUDM/slime at 624b824a898ab0ec1fcb4d373004c7f3852bf515, files
`slime/rollout/sglang_rollout.py`, `slime/rollout/base_types.py`, `slime/utils/types.py`). slime
keeps its SGLang servers and sends them the weights; Seer's controller decides which server runs
which chunk of which request.
"""

import asyncio
from argparse import Namespace
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from slime.rollout import sglang_rollout
from slime.rollout.base_types import RolloutFnEvalOutput, RolloutFnTrainOutput
from slime.rollout.filter_hub.base_types import MetricGatherer, call_dynamic_filter
from slime.utils.async_utils import run
from slime.utils.misc import load_function
from slime.utils.processing_utils import load_tokenizer

from seer.rollout.config import RolloutConfig
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.results import GroupResult
from seer.rollout.rollout import Rollout
from seer.trainers.borrowed.engine import OneVersion
from seer.trainers.borrowed.spec import BorrowedSpec, HFTokens, borrowed_config
from seer.trainers.slime.arguments import (
    Batch,
    batch_of,
    check_arguments,
    rollout_sampling,
    seer_settings,
)
from seer.trainers.slime.samples import check_groups, fill_in, prompt_item, reward_group
from seer.trainers.slime.servers import find_servers, stated_kv_tokens

_Group = Sequence[Any]
_LONGEST_PROMPT = 32768
"""Where slime limits neither prompt nor context; the servers have limits of their own."""


def generate(
    args: Namespace,
    rollout_id: int,
    data_source: Any,
    evaluation: bool = False,  # noqa: FBT001, FBT002 - slime's signature
) -> RolloutFnTrainOutput | RolloutFnEvalOutput:
    """One rollout of `rollout_batch_size` groups, rewards included; slime calls it by this shape.

    Rewards of a finished group are computed while others generate. An evaluation is left to slime's
    own function. Raises InvalidInput for arguments, samples or rewards that Seer cannot serve,
    EngineFailure when a server fails or has other weights than before.
    """
    if evaluation:
        return sglang_rollout.generate_rollout(args, rollout_id, data_source, evaluation=True)
    check_arguments(args)
    return run(_generate(args, data_source))


async def _generate(args: Namespace, data_source: Any) -> RolloutFnTrainOutput:
    tokenizer = load_tokenizer(args.hf_checkpoint, trust_remote_code=True)
    config, version = await _config(args, tokenizer)
    async with Rollout(config) as rollout:
        work = _Work(args, rollout, tokenizer, version)
        groups = await work.collect(batch_of(args), data_source)
        metrics = _figures(rollout.metrics())
    groups.sort(key=lambda group: group[0].index)
    return RolloutFnTrainOutput(samples=groups, metrics=metrics | work.dropped.collect())


async def _config(args: Namespace, tokenizer: Any) -> tuple[RolloutConfig, OneVersion]:
    servers = await find_servers(args)
    context = getattr(args, "rollout_max_context_len", None)
    prompt = getattr(args, "rollout_max_prompt_len", None)
    limit = context or (prompt or _LONGEST_PROMPT) + args.rollout_max_response_len
    config = borrowed_config(
        seer_settings(args),
        model=args.hf_checkpoint,
        engines=servers,
        tokens=HFTokens(tokenizer, skip_special_tokens=args.rollout_skip_special_tokens),
        vocab_size=len(tokenizer),
        max_context_tokens=limit,
        stated_kv_tokens=await stated_kv_tokens(servers),
    )
    assert isinstance(config.engine, BorrowedSpec)  # noqa: S101 - made just now
    return config, config.engine.version


class _Work:
    """The samples of one rollout, generated, rewarded and filtered."""

    def __init__(
        self, args: Namespace, rollout: Rollout, tokenizer: Any, version: OneVersion
    ) -> None:
        self._args = args
        self._rollout = rollout
        self._tokenizer = tokenizer
        self._version = version
        path = getattr(args, "dynamic_sampling_filter_path", None)
        self._filter = load_function(path) if path is not None else None
        self.dropped = MetricGatherer()

    async def collect(self, batch: Batch, data_source: Any) -> list[_Group]:
        """Groups that pass the filter; what is left when there are enough is cancelled."""
        kept: list[_Group] = []
        while len(kept) < batch.num_groups:
            count = batch.num_asked if self._filter else batch.num_groups
            groups = data_source.get_samples(count)
            check_groups(groups, count, batch.group_size)
            async with aclosing(self._finished(groups, batch.group_size)) as finished:
                async for group in finished:
                    if self._passes(group):
                        kept.append(group)
                    if len(kept) == batch.num_groups:
                        break
        path = getattr(self._args, "rollout_sample_filter_path", None)
        if path is not None:
            load_function(path)(self._args, kept)
        return kept

    async def _finished(self, groups: Sequence[_Group], size: int) -> AsyncGenerator[_Group, None]:
        """Groups with their rewards as these come, while other groups still generate."""
        items = [prompt_item(group, self._tokenizer, i) for i, group in enumerate(groups)]
        sampling = rollout_sampling(self._args)
        stream = self._rollout.stream(items, group_size=size, sampling=sampling)
        coming = asyncio.create_task(_next(stream))
        scoring: set[asyncio.Task[_Group]] = set()
        try:
            while not coming.done() or coming.result() is not None or scoring:
                waits = scoring if coming.done() else {coming, *scoring}
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                result = coming.result() if coming in done else None
                if result is not None:
                    group = groups[int(result.prompt_id)]
                    fill_in(group, result, self._version.name)
                    scoring.add(asyncio.create_task(self._scored(group)))
                    coming = asyncio.create_task(_next(stream))
                for scored in [task for task in scoring if task in done]:
                    scoring.remove(scored)
                    yield scored.result()
        finally:
            for task in (coming, *scoring):
                task.cancel()
            await asyncio.gather(coming, *scoring, return_exceptions=True)
            await stream.aclose()

    async def _scored(self, group: _Group) -> _Group:
        await reward_group(self._args, group)
        return group

    def _passes(self, group: _Group) -> bool:
        """Whether slime's dynamic filter keeps it; a dropped one is counted by its reason."""
        verdict = call_dynamic_filter(self._filter, self._args, group)
        if not verdict.keep:
            self.dropped.on_dynamic_filter_drop(reason=verdict.reason)
        return bool(verdict.keep)


async def _next(stream: AsyncGenerator[GroupResult, None]) -> GroupResult | None:
    """The next finished group; None: there is none left."""
    return await anext(stream, None)


def _figures(metrics: RolloutMetrics) -> dict[str, float]:
    """Names and values for slime's log of the rollout."""
    return {
        "rollout/seer/tokens_per_s": metrics.throughput_tokens_per_s,
        "rollout/seer/rollout_s": metrics.total_time_s,
        "rollout/seer/tail_s": metrics.tail_time_s,
        "rollout/seer/chunks": float(metrics.num_chunks),
        "rollout/seer/reprefilled_tokens": float(metrics.reprefilled_tokens),
        "rollout/seer/instances_lost": float(metrics.instances_lost),
    }
