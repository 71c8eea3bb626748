"""An engine that belongs to the trainer, behind Seer's Engine protocol: one chunk, one call to it.

The trainer starts such engines, gives them their weights and ends them; Seer borrows them for the
length of a rollout and decides what runs where and when. What that leaves out of the protocol:

- Tokens come with the end of a chunk only, none before.
- Draws are the engine's own, not keyed by Seer's seed: texts depend on batches and chunks.
- KV stays in the engine's prefix cache as long as the engine likes. Seer's ledger takes it that a
  request's KV stays where its last chunk ran; where it did not, the engine computes it anew.
  Nothing is exported, so a request that goes elsewhere is computed anew there, too.
- Weights are the trainer's business. All answers of a rollout must name one version of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from seer.engines.serving.stopping import StopCheck
from seer.errors import EngineFailure, InstanceLost, SeerError
from seer.rollout.engine import OnProgress
from seer.types import (
    Chunk,
    ChunkEnd,
    ChunkResult,
    ChunkStats,
    DropKV,
    EngineInfo,
    InstanceLoad,
    KVMove,
    KVMoved,
    RequestId,
    SamplingParams,
    WeightUpdate,
)

_STOP_SLACK_TOKENS = 4
"""As in StopCheck: a character may spread over several tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one call generates."""

    request_id: RequestId
    token_ids: list[int]
    """Prompt and what earlier chunks generated."""
    num_generated: int
    """Tokens of earlier chunks among them."""
    max_tokens: int
    sampling: SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one call came to."""

    token_ids: list[int]
    """New tokens only, the end token included."""
    logprobs: list[float]
    finish: Literal["stop", "length"]
    cached_tokens: int | None = None
    """Tokens that the engine found in its cache; None: it does not say."""
    weight_version: str | None = None
    """Version of the weights; None: the engine does not say."""


Generate = Callable[[Ask], Awaitable[Answer]]
"""One call to one engine. Raises InstanceLost when the engine is gone, else any error."""


class OneVersion:
    """The version of the weights that all answers of a rollout must have."""

    def __init__(self) -> None:
        self.name: str | None = None
        """None: no answer has named one."""

    def see(self, version: str | None) -> None:
        """Raise EngineFailure when it is not the one that was seen first."""
        if version is None or version == self.name:
            return
        if self.name is not None:
            raise EngineFailure(
                f"the engines' weights changed during the rollout, from version {self.name} to "
                f"{version}: update them between rollouts"
            )
        self.name = version


@dataclass(slots=True)
class _Running:
    call: asyncio.Future[Answer]
    num_tokens: int
    """KV tokens that it may come to take."""


class BorrowedEngine:
    """One of the trainer's engines, for one rollout session."""

    def __init__(
        self,
        info: EngineInfo,
        instance_id: int,
        generate: Generate,
        decode: Callable[[Sequence[int]], str],
        version: OneVersion,
    ) -> None:
        self._info = info
        self._instance_id = instance_id
        self._generate = generate
        self._decode = decode
        self._version = version
        self._weight_version = 0
        self._running: dict[RequestId, _Running] = {}
        self._is_closed = False

    @property
    def info(self) -> EngineInfo:
        """Capacity and limits, as the trainer's side states them."""
        return self._info

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        """Generate one chunk by one call; `on_progress` is not called.

        Raises InstanceLost when the engine is gone, EngineFailure for every other failure of the
        call, for an answer that is malformed, and for one from other weights.
        """
        del on_progress
        self._check(chunk)
        call = asyncio.ensure_future(self._call(chunk))
        num_tokens = len(chunk.prompt_token_ids) + len(chunk.output_token_ids) + chunk.max_tokens
        self._running[chunk.request_id] = _Running(call, num_tokens)
        try:
            await asyncio.wait({call})
        finally:
            call.cancel()
            del self._running[chunk.request_id]
        if call.cancelled():
            if self._is_closed:
                raise InstanceLost(self._instance_id, "closed")
            return self._aborted(chunk)
        return self._result(chunk, call.result())

    async def move_kv(self, move: KVMove) -> KVMoved:
        """Nothing can be exported; what is dropped is left to the engine's own cache."""
        return KVMoved(key=move.key, ok=isinstance(move, DropKV))

    async def abort(self, request_id: RequestId) -> None:
        """Cancel the call; what it had generated is lost, since only its end would tell."""
        running = self._running.get(request_id)
        if running is not None:
            running.call.cancel()

    async def update_weights(self, update: WeightUpdate) -> None:
        """Take note that the trainer has given its engine new weights; `path` is not read.

        Raises EngineFailure while chunks are in flight.
        """
        if self._running:
            raise EngineFailure("weights cannot be updated while chunks are in flight")
        self._weight_version = update.version
        self._version.name = None

    async def close(self) -> None:
        """Let go of the engine, which goes on; calls in flight are cancelled. Idempotent."""
        self._is_closed = True
        for running in self._running.values():
            running.call.cancel()

    def _check(self, chunk: Chunk) -> None:
        if self._is_closed:
            raise InstanceLost(self._instance_id, "closed")
        if chunk.request_id in self._running:
            raise EngineFailure(f"request {chunk.request_id} has a chunk in flight")
        if chunk.weight_version != self._weight_version:
            raise EngineFailure(
                f"a chunk for weights {chunk.weight_version}, but these are {self._weight_version}"
            )

    async def _call(self, chunk: Chunk) -> Answer:
        ask = Ask(
            request_id=chunk.request_id,
            token_ids=[*chunk.prompt_token_ids, *chunk.output_token_ids],
            num_generated=len(chunk.output_token_ids),
            max_tokens=chunk.max_tokens,
            sampling=chunk.sampling,
        )
        try:
            answer = await self._generate(ask)
        except SeerError:
            raise
        except Exception as error:  # other people's code; a rollout ends with its words
            why = f"{type(error).__name__}: {error}"
            raise EngineFailure(f"instance {self._instance_id}: {why}") from error
        self._check_answer(ask, answer)
        return answer

    def _check_answer(self, ask: Ask, answer: Answer) -> None:
        self._version.see(answer.weight_version)
        count = len(answer.token_ids)
        name = f"instance {self._instance_id}, request {ask.request_id}"
        if count != len(answer.logprobs):
            raise EngineFailure(f"{name}: {count} tokens, {len(answer.logprobs)} log-probabilities")
        if not 1 <= count <= ask.max_tokens:
            raise EngineFailure(f"{name}: {count} tokens, where 1 to {ask.max_tokens} were asked")
        if answer.finish == "length" and count < ask.max_tokens:
            raise EngineFailure(
                f"{name}: ended after {count} of {ask.max_tokens} tokens: is the engine's context "
                f"shorter than {len(ask.token_ids) + ask.max_tokens}?"
            )

    def _result(self, chunk: Chunk, answer: Answer) -> ChunkResult:
        count = self._cut(chunk, answer)
        is_stop = answer.finish == "stop" or count < len(answer.token_ids)
        return ChunkResult(
            request_id=chunk.request_id,
            chunk_index=chunk.chunk_index,
            token_ids=answer.token_ids[:count],
            logprobs=answer.logprobs[:count],
            end=ChunkEnd.STOP if is_stop else ChunkEnd.LENGTH,
            stats=_stats(chunk, answer),
            load=self._load(),
        )

    def _aborted(self, chunk: Chunk) -> ChunkResult:
        return ChunkResult(
            request_id=chunk.request_id,
            chunk_index=chunk.chunk_index,
            token_ids=[],
            logprobs=[],
            end=ChunkEnd.ABORTED,
            stats=ChunkStats(),
            load=self._load(),
        )

    def _cut(self, chunk: Chunk, answer: Answer) -> int:
        """Tokens up to the end of a stop string that began in an earlier chunk.

        The engine sees one chunk as its output, so it misses such a string and no other.
        """
        strings = chunk.sampling.stop
        if not strings or not chunk.output_token_ids:
            return len(answer.token_ids)
        check = StopCheck(chunk.sampling, (), self._decode)
        reach = max(len(text) for text in strings) + _STOP_SLACK_TOKENS
        before = chunk.output_token_ids[-reach:]
        for count in range(1, min(reach, len(answer.token_ids)) + 1):
            if check.stops([*before, *answer.token_ids[:count]], 0):
                return count
        return len(answer.token_ids)

    def _load(self) -> InstanceLoad:
        used = sum(running.num_tokens for running in self._running.values())
        return InstanceLoad(
            free_kv_tokens=max(0, self._info.kv_capacity_tokens - used),
            num_running=len(self._running),
            num_waiting=0,
        )


def _stats(chunk: Chunk, answer: Answer) -> ChunkStats:
    """What was computed again, where the engine says what it had; else zeros: not known."""
    if answer.cached_tokens is None:
        return ChunkStats()
    num_prompt = len(chunk.prompt_token_ids)
    # The last token has no KV yet: the chunk feeds it, whatever was cached.
    has_kv = num_prompt + len(chunk.output_token_ids) - 1
    of_prompt = max(0, min(num_prompt, has_kv) - answer.cached_tokens)
    of_output = max(0, has_kv - max(num_prompt, answer.cached_tokens))
    return ChunkStats(num_prompt_prefilled=of_prompt, num_output_prefilled=of_output)
