"""One vLLM instance behind the Engine protocol: a chunk is a request over token ids.

vLLM's AsyncLLM runs here, its engine core and workers in processes of their own below. What the
protocol says of KV holds as far as vLLM lets it: KV at rest is what the prefix cache still has,
whole blocks of it, and vLLM throws out the oldest when it needs the room. So to drop KV is nothing
to do, and a chunk reports what it had to compute anew.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from vllm import SamplingParams as VllmSamplingParams
from vllm.config import VllmConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from seer.engines.serving.stopping import StopCheck
from seer.engines.vllm.arguments import engine_arguments
from seer.engines.vllm.chunk_flight import ChunkFlight, Drafted
from seer.engines.vllm.load_watch import LoadWatch
from seer.engines.vllm.requests import prompt_arguments, request_name, sampling_arguments
from seer.engines.vllm.start_errors import logged_errors
from seer.engines.vllm.warm_up import warm_up
from seer.engines.vllm.weight_files import check_fit, read_shapes
from seer.errors import EngineFailure, InstanceLost, InvalidInput
from seer.rollout.engine import InstanceSetup, OnProgress
from seer.types import (
    Chunk,
    ChunkEnd,
    ChunkResult,
    DropKV,
    EngineInfo,
    KVMove,
    KVMoved,
    RequestId,
    WeightUpdate,
)

if TYPE_CHECKING:
    from seer.engines.vllm.spec import VllmSpec

_ENDS = {"stop": ChunkEnd.STOP, "length": ChunkEnd.LENGTH, "abort": ChunkEnd.ABORTED}
"""What vLLM's finish reasons are here."""

Decode = Callable[[Sequence[int]], str]


class VllmEngine:
    """Made by `start`, on the event loop that it is used on."""

    def __init__(
        self, llm: AsyncLLM, watch: LoadWatch, spec: "VllmSpec", setup: InstanceSetup
    ) -> None:
        self._llm = llm
        self._watch = watch
        self._spec = spec
        self._info = spec.describe()
        self._shape = spec.shape()
        self._instance_id = setup.instance_id
        self._drafts = setup.drafting.is_on
        self._weight_version = 0
        self._decode: Decode | None = None
        self._flights: dict[RequestId, ChunkFlight] = {}
        self._runs: set[asyncio.Task[ChunkResult]] = set()
        self._is_closed = False

    @classmethod
    async def start(cls, spec: "VllmSpec", setup: InstanceSetup) -> Self:
        """Load the model.

        Raises InvalidInput when vLLM refuses it or a setting, EngineFailure when it does not start.

        The event loop stands still meanwhile: vLLM's client takes hold of it as it is made.
        """
        arguments = engine_arguments(spec, setup)
        info = spec.describe()
        watch = LoadWatch(info, arguments["num_gpu_blocks_override"] - 1)
        config = _configure(arguments)
        async with AsyncExitStack() as on_failure:
            engine = cls(_start_llm(config, watch), watch, spec, setup)
            on_failure.push_async_callback(engine.close)
            if config.cache_config.block_size != info.block_size:
                allowed = f"vLLM wants {config.cache_config.block_size} for this model"
                raise InvalidInput("block_size", info.block_size, allowed)
            await engine._llm.collective_rpc("seer_attach", args=(os.getpid(),))
            await warm_up(engine._llm)
            on_failure.pop_all()
        return engine

    @property
    def info(self) -> EngineInfo:
        """Capacity and limits."""
        return self._info

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        """Generate one chunk. Raises InvalidInput for sampling that vLLM cannot do with drafts."""
        self._check(chunk)
        flight = ChunkFlight(chunk=chunk, stop=self._stop_check(chunk))
        self._flights[chunk.request_id] = flight
        run = asyncio.create_task(self._generate(flight, on_progress))
        self._runs.add(run)
        try:
            return await run
        except asyncio.CancelledError:
            if self._is_closed:
                raise InstanceLost(self._instance_id, "closed") from None
            run.cancel()
            raise
        finally:
            self._runs.discard(run)
            del self._flights[chunk.request_id]

    async def move_kv(self, move: KVMove) -> KVMoved:
        """Nothing is exported; what is dropped is left to vLLM's prefix cache."""
        self._check_open()
        return KVMoved(key=move.key, ok=isinstance(move, DropKV))

    async def abort(self, request_id: RequestId) -> None:
        """Cut a chunk short."""
        self._check_open()
        flight = self._flights.get(request_id)
        if flight is not None:
            flight.is_aborted = True
            await self._llm.abort(request_name(request_id, flight.chunk.chunk_index))

    async def update_weights(self, update: WeightUpdate) -> None:
        """Replace the weights; requests of the new version cannot reach the old ones' KV."""
        self._check_open()
        if self._flights:
            raise EngineFailure("weights cannot be updated while chunks are in flight")
        new, model = await asyncio.to_thread(
            lambda: (read_shapes(update.path), read_shapes(self._spec.model))
        )
        check_fit(new, model, tied_embeddings=self._shape.tied_embeddings)
        try:
            await self._llm.collective_rpc("seer_load_weights", args=(update.path,))
            await self._llm.reset_prefix_cache()
        except EngineDeadError as error:
            raise self._lost(error) from error
        except Exception as error:
            raise EngineFailure(f"vLLM did not load the weights: {error}") from error
        self._weight_version = update.version

    async def close(self) -> None:
        """End vLLM's processes. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        runs = list(self._runs)
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)  # each aborts its request
        await asyncio.to_thread(partial(self._llm.shutdown, timeout=0))

    # ---------------------------------------------------------------- one chunk

    async def _generate(self, flight: ChunkFlight, on_progress: OnProgress) -> ChunkResult:
        chunk = flight.chunk
        params = VllmSamplingParams(
            **sampling_arguments(chunk, self._shape.eos_token_ids),
            output_kind=RequestOutputKind.DELTA,
            skip_clone=True,
        )
        name = request_name(chunk.request_id, chunk.chunk_index)
        try:
            outputs = self._llm.generate(prompt_arguments(chunk), params, name)
            end = await self._follow(flight, outputs, on_progress)
        except EngineDeadError as error:
            raise self._lost(error) from error
        except ValueError as error:
            raise EngineFailure(f"vLLM refuses chunk {name}: {error}") from error
        return flight.result(end, self._watch.load())

    async def _follow(
        self, flight: ChunkFlight, outputs: AsyncGenerator[Any, None], on_progress: OnProgress
    ) -> ChunkEnd:
        """Take what vLLM reports, up to the end. Leaving `outputs` early aborts the request."""
        async with aclosing(outputs):
            async for output in outputs:
                num_before = len(flight.token_ids)
                if _take(flight, output):
                    return ChunkEnd.STOP
                if output.finished:
                    return _end(output)
                if flight.is_aborted:
                    return ChunkEnd.ABORTED
                on_progress(flight.progress_since(num_before))
        raise EngineFailure("vLLM ended a chunk without saying why")

    def _stop_check(self, chunk: Chunk) -> StopCheck | None:
        if not chunk.sampling.stop:
            return None
        if self._decode is None:
            self._decode = self._spec.tokenizer().decode
        return StopCheck(chunk.sampling, self._shape.eos_token_ids, self._decode)

    def _check(self, chunk: Chunk) -> None:
        self._check_open()
        if chunk.request_id in self._flights:
            raise EngineFailure(f"request {chunk.request_id} has a chunk in flight already")
        if chunk.weight_version != self._weight_version:
            raise EngineFailure(
                f"a chunk for weights {chunk.weight_version}, but these are {self._weight_version}"
            )
        if self._drafts and chunk.sampling.min_p > 0:
            allowed = "allowed with drafts in vLLM: 0"
            raise InvalidInput("min_p", chunk.sampling.min_p, allowed)

    def _check_open(self) -> None:
        if self._is_closed:
            raise InstanceLost(self._instance_id, "closed")
        if self._llm.errored:
            raise self._lost(self._llm.dead_error)

    def _lost(self, error: BaseException) -> InstanceLost:
        return InstanceLost(self._instance_id, f"vLLM's engine core has ended ({error})")


def _configure(arguments: dict[str, Any]) -> VllmConfig:
    """The configuration. Raises InvalidInput where vLLM refuses the model or an argument."""
    try:
        return AsyncEngineArgs(**arguments).create_engine_config()
    except ValueError as error:
        why = " ".join(str(error).split())
        raise InvalidInput("model", arguments["model"], f"vLLM refuses it: {why}") from error


def _start_llm(config: VllmConfig, watch: LoadWatch) -> AsyncLLM:
    try:
        return AsyncLLM.from_vllm_config(
            config, disable_log_stats=True, stat_loggers=[lambda *_: watch]
        )
    except RuntimeError as error:
        why = "; ".join(logged_errors()) or str(error)
        raise EngineFailure(f"vLLM did not start: {why}") from error


def _take(flight: ChunkFlight, output: Any) -> bool:
    """Take one of vLLM's RequestOutputs; returns whether a stop string ends the response."""
    completion = output.outputs[0]
    flight.num_cached = output.num_cached_tokens or 0
    if output.metrics is not None:
        flight.num_preemptions = output.metrics.num_preemptions
    drafts = completion.spec_decode_metrics
    if drafts is not None:
        flight.drafts = Drafted(drafted=drafts.per_step_drafted, accepted=drafts.per_step_accepted)
    logprobs = completion.logprobs.logprobs if completion.token_ids else ()
    return flight.take(completion.token_ids, logprobs)


def _end(output: Any) -> ChunkEnd:
    reason = output.outputs[0].finish_reason
    if reason not in _ENDS:
        raise EngineFailure(f"vLLM ended a chunk by {reason!r}")
    return _ENDS[reason]
