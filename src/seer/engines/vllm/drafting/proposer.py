"""What vLLM loads as its `custom_class` proposer: drafts from the groups' suffix trees.

It lives in the worker process, between vLLM's model runner and a DraftLoop. Nothing remote is
asked while a step waits: the draft client exchanges texts with the server in a thread of its own.
Tried with vLLM 0.32.0; of 0.33.0 the same names were read.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seer.costmodel.step_time import StepTime
from seer.drafting.acceptance import AcceptanceStatistics
from seer.drafting.draft_client import ClientSettings, DraftClient
from seer.drafting.draft_server import DraftServer
from seer.drafting.planner import Planner
from seer.drafting.sharded_server import link_to
from seer.drafting.suffix_tree import DraftSettings
from seer.engines.serving.group_drafter import GroupDrafter
from seer.engines.vllm.drafting.draft_loop import Arrival, Batch, DraftLoop
from seer.engines.vllm.drafting.identity import chunk_of
from seer.engines.vllm.drafting.learned_time import LearnedStepTime
from seer.engines.vllm.drafting.repair import repair_rejection_sampler
from seer.engines.vllm.drafting.settings import (
    VllmDrafting,
    chain_budget,
    from_additional_config,
)

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class GroupDraftProposer:
    """A vLLM proposer. Until `attach` is called it guesses nothing."""

    def __init__(self, vllm_config: "VllmConfig") -> None:
        """Reads the settings that `VllmDrafting.engine_arguments` put into the configuration.

        Raises InvalidInput when they are not there, EngineFailure when vLLM would draw wrong tokens
        and cannot be repaired.
        """
        settings = from_additional_config(vllm_config.additional_config)
        if settings.repair:
            repair_rejection_sampler()
        self._max_length = vllm_config.model_config.max_model_len
        self._time = LearnedStepTime()
        vocab_size = vllm_config.model_config.get_vocab_size()
        self._loop = DraftLoop(
            _drafter(settings, vocab_size, self._time),
            settings.max_draft_tokens,
            uniform=settings.uniform,
        )
        self._runner: Any = None
        self._is_output_rank = True
        self._last: _LastStep | None = None

    def attach(self, runner: Any, *, is_output_rank: bool = True) -> None:
        """Get to know vLLM's model runner: only it knows which requests the rows are.

        Of several tensor-parallel ranks one's drafts are taken; the others need make none.
        """
        self._runner = runner
        self._is_output_rank = is_output_rank

    def load_model(self, target_model: object) -> None:
        """There is no draft model. vLLM's runner for CPUs calls this."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: NDArray[np.int32],
        token_ids_cpu: NDArray[np.int32],
        slot_mappings: object = None,
    ) -> list[list[int]]:
        """Guesses for every row of the batch, (rows) lists of any length up to the greatest."""
        del slot_mappings
        if self._runner is None or not self._is_output_rank:
            return [[] for _ in sampled_token_ids]
        count = len(sampled_token_ids)
        batch = Batch(
            names=self._runner.input_batch.req_ids[:count],
            sampled=sampled_token_ids,
            lengths=num_tokens_no_spec[:count].tolist(),
            token_ids=token_ids_cpu,
        )
        self._time_step(batch)
        guesses = self._loop.step(batch, self._arrival_in(batch), self._runner.requests)
        self._last = _LastStep(batch.names, [len(g) for g in guesses], time.perf_counter())
        return guesses

    def close(self) -> None:
        """End the exchange with the draft server. vLLM lets it end with the process."""
        self._loop.close()

    def _arrival_in(self, batch: Batch) -> Callable[[int], Arrival]:
        """What a row's request is; asked for once a request."""

        def arrival(row: int) -> Arrival:
            name = batch.names[row]
            params = self._runner.requests[name].sampling_params
            num_prompt = int(self._runner.input_batch.num_prompt_tokens[row])
            text = batch.token_ids[row, : batch.lengths[row]].tolist()
            most = self._max_length if params.max_tokens is None else params.max_tokens
            return Arrival(
                chunk=chunk_of(name, params.extra_args, text[:num_prompt], text[num_prompt:]),
                max_length=min(num_prompt + most, self._max_length),
            )

        return arrival

    def _time_step(self, batch: Batch) -> None:
        """Learn from the step since the last call, if all it did was to decode the same batch."""
        last, now = self._last, time.perf_counter()
        if last is None or last.names != batch.names or not all(batch.sampled):
            return
        count = len(batch.names)
        self._time.add(count, count + sum(last.num_guesses), sum(batch.lengths), now - last.ended)


@dataclass(frozen=True, slots=True)
class _LastStep:
    """When the last call ended, and what it left for vLLM to verify."""

    names: Sequence[str]
    num_guesses: Sequence[int]
    ended: float


def _drafter(settings: VllmDrafting, vocab_size: int, learned: StepTime) -> GroupDrafter:
    """The drafter of the local engine, over chains."""
    drafting = settings.drafting
    server = drafting.server
    link = DraftServer(vocab_size=vocab_size) if server is None else link_to(server)
    client_settings = ClientSettings(
        vocab_size=vocab_size,
        fetch_period_s=drafting.fetch_period_s,
        warm_start=drafting.warm_start,
    )
    budget = chain_budget(drafting.budget, drafting.step_time or learned)
    planner = Planner(budget, DraftSettings(), AcceptanceStatistics())
    return GroupDrafter(DraftClient(link, client_settings), planner)
