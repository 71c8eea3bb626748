"""The actor behind one replica: Seer's engine, answering what verl asks of a rollout server.

verl calls `generate` for each turn of each trajectory. By itself a server knows no groups: it runs
requests first-come-first-served, each as one chunk. Where Seer's router schedules, that calls
`run_chunk`, and a request keeps its KV here from chunk to chunk.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
from verl.workers.rollout.replica import TokenOutput

from seer.drafting.config import DraftingConfig
from seer.engines.local.spec import LocalSpec
from seer.errors import EngineFailure, InvalidInput
from seer.rollout.engine import Engine, InstanceSetup
from seer.trainers.borrowed.vllm_params import seer_sampling
from seer.trainers.verl.settings import Lengths
from seer.types import (
    Chunk,
    ChunkEnd,
    ChunkResult,
    DropKV,
    EngineInfo,
    KVKey,
    KVMoved,
    RequestId,
    SamplingParams,
    WeightUpdate,
)

logger = logging.getLogger(__name__)

_FIRST_OWN_GROUP = 2**40
"""Groups from here on are requests of `generate`: a router's never come so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetup:
    """What a server is told."""

    replica_rank: int
    spec: LocalSpec
    lengths: Lengths
    drafting: DraftingConfig
    seed: int
    ignore_eos: bool
    frees_engine: bool
    """End the engine while verl's trainer has the device."""


class SeerServer:
    """An async Ray actor; `verl.workers.rollout.vllm_rollout` has vLLM's."""

    def __init__(self, setup: ServerSetup) -> None:
        self._setup = setup
        self._info = setup.spec.describe()
        self._engine: Engine | None = None
        self._launching = asyncio.Lock()
        self._weight_version = 0
        self._global_steps: int | None = None
        self._num_asked = 0
        self._running: set[RequestId] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_rejecting = False

    # ---------------------------------------------------------------- generation

    async def generate(
        self,
        *,
        prompt_ids: Sequence[int],
        sampling_params: Mapping[str, Any],
        request_id: str,
        image_data: Any = None,
        video_data: Any = None,
        audio_data: Any = None,
        **_unused: Any,
    ) -> TokenOutput:
        """One turn. Raises InvalidInput for media and for sampling that the engine has not."""
        if any(data for data in (image_data, video_data, audio_data)):
            raise InvalidInput("image_data", "some", "allowed: none; Seer's engine takes text only")
        prompt = [int(token) for token in prompt_ids]
        sampling = self.sampling(sampling_params, len(prompt))
        if not await self._admit():
            return TokenOutput(
                token_ids=[], stop_reason="aborted", extra_fields=self._fields(cached_tokens=0)
            )
        group = _FIRST_OWN_GROUP + self._num_asked
        self._num_asked += 1
        chunk = Chunk(
            request_id=RequestId(group, 0),
            chunk_index=0,
            sampling_group=_draw_key(request_id, prompt),
            prompt_token_ids=prompt,
            output_token_ids=[],
            sampling=sampling,
            max_tokens=sampling.max_tokens,
            keep_kv=False,
            weight_version=self._weight_version,
        )
        result = await self._run(chunk)
        await (await self._launched()).move_kv(DropKV(key=KVKey(group)))
        return self._output(chunk, result, wants_logprobs=bool(sampling_params.get("logprobs")))

    async def run_chunk(self, chunk: Chunk) -> tuple[ChunkResult, int | None]:
        """One chunk for Seer's router, and the version of the weights that generated it."""
        if not await self._admit():
            raise EngineFailure("the server rejects requests")
        current = msgspec.structs.replace(chunk, weight_version=self._weight_version)
        return await self._run(current), self._global_steps

    async def move_kv(self, move: DropKV) -> KVMoved:
        """Drop KV for Seer's router."""
        return await (await self._launched()).move_kv(move)

    async def abort_chunk(self, request_id: RequestId) -> None:
        """Cut a chunk of Seer's router short."""
        await (await self._launched()).abort(request_id)

    def sampling(self, params: Mapping[str, Any], num_prompt: int) -> SamplingParams:
        """Verl's parameters as the engine takes them. Raises InvalidInput."""
        if params.get("repetition_penalty") not in {None, 1}:
            value = params["repetition_penalty"]
            raise InvalidInput("repetition_penalty", value, "allowed: 1 with rollout.name=seer")
        limit = self._setup.lengths.limit(params, num_prompt, self._info.max_context_tokens)
        asked = {"ignore_eos": self._setup.ignore_eos, **params, "max_tokens": limit}
        return msgspec.structs.replace(seer_sampling(asked), seed=self._setup.seed)

    async def describe(self) -> EngineInfo:
        """Sizes and limits of the engine."""
        return self._info

    # ---------------------------------------------------------------- weights and memory

    async def load_weights(self, path: str, global_steps: int | None) -> None:
        """Take the weights of a directory; all KV is dropped.

        Raises EngineFailure while requests are running, or when the weights do not fit.
        """
        engine = await self._launched()
        version = self._weight_version + 1
        await engine.update_weights(WeightUpdate(version=version, path=path))
        self._weight_version = version
        self._global_steps = global_steps

    async def set_global_steps(self, global_steps: int) -> None:
        """Name the weights."""
        self._global_steps = global_steps

    async def sleep(self) -> None:
        """Leave the device to the trainer, when what runs has ended."""
        await self._is_idle.wait()
        if self._setup.frees_engine and self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.close()

    async def wake_up(self, tags: Sequence[str] | None = None) -> None:
        """The engine starts again when it is next needed: its weights are about to come."""

    async def clear_kv_cache(self) -> None:
        """Nothing to do: new weights drop all KV, and an ended request has none."""

    async def release_kv_cache(self) -> None:
        """As `sleep`."""
        await self.sleep()

    async def resume_kv_cache(self) -> None:
        """As `wake_up`."""

    # ---------------------------------------------------------------- interruption

    async def abort_all_requests(self, *, reject_request: bool = False) -> dict[str, Any]:
        """End what runs, with what it has generated, and hold back what comes (or reject it)."""
        self._is_rejecting = reject_request
        self._is_open.clear()
        running = sorted(self._running)
        engine = await self._launched() if running else None
        for request_id in running:
            assert engine is not None  # noqa: S101 - there is one where something runs
            await engine.abort(request_id)
        return {"aborted_count": len(running), "request_ids": [str(r) for r in running]}

    async def resume_generation(self) -> None:
        """Take requests again."""
        self._is_rejecting = False
        self._is_open.set()

    async def start_profile(self, **_unused: Any) -> None:
        """Seer's engine has no profiler of verl's kind."""

    async def stop_profile(self) -> None:
        """See `start_profile`."""

    # ---------------------------------------------------------------- internals

    async def _admit(self) -> bool:
        """Wait for the gate; False: it rejects."""
        while not self._is_open.is_set():
            if self._is_rejecting:
                return False
            await self._is_open.wait()
        return True

    async def _run(self, chunk: Chunk) -> ChunkResult:
        engine = await self._launched()
        self._running.add(chunk.request_id)
        self._is_idle.clear()
        try:
            return await engine.run(chunk, lambda _: None)
        finally:
            self._running.discard(chunk.request_id)
            if not self._running:
                self._is_idle.set()

    async def _launched(self) -> Engine:
        async with self._launching:
            if self._engine is None:
                setup = InstanceSetup(
                    instance_id=self._setup.replica_rank, drafting=self._setup.drafting
                )
                self._engine = await self._setup.spec.launch(setup)
                self._weight_version = 0
            return self._engine

    def _output(self, chunk: Chunk, result: ChunkResult, *, wants_logprobs: bool) -> TokenOutput:
        cached = len(chunk.prompt_token_ids) - result.stats.num_prompt_prefilled
        return TokenOutput(
            token_ids=result.token_ids,
            log_probs=result.logprobs if wants_logprobs else None,
            stop_reason="aborted" if result.end is ChunkEnd.ABORTED else "completed",
            num_preempted=result.stats.num_preemptions,
            extra_fields=self._fields(cached_tokens=max(0, cached)),
        )

    def _fields(self, *, cached_tokens: int) -> dict[str, Any]:
        return {"global_steps": self._global_steps, "num_cached_tokens": cached_tokens}


def _draw_key(request_id: str, prompt: Sequence[int]) -> int:
    """Keys the draws of a turn: with verl's full_determinism the ids are the same in every run."""
    text = f"{request_id}:{','.join(map(str, prompt))}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1
