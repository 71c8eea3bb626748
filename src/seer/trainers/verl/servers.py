"""verl's own rollout servers, vLLM's or SGLang's, one `generate` call a chunk."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from ray.exceptions import RayActorError

from seer.engines.serving.stopping import StopCheck
from seer.errors import EngineFailure, InstanceLost
from seer.trainers.borrowed.engine import Answer, Ask
from seer.trainers.borrowed.vllm_params import chunk_limits
from seer.types import Chunk, ChunkResult, RequestId

_RETRY_S = 1.0
"""As verl's own client waits before it goes on with an aborted request."""
_EMPTY_ABORTS = 5
"""Aborts without a token, in a row, after which a server counts as lost: it rejects requests."""
_ABORTED = ("aborted", "abort")


class Note:
    """What the answers for one request said besides tokens."""

    def __init__(self) -> None:
        self.global_steps: int | None = None
        self.num_preempted: int | None = None
        self.num_cached_tokens: int | None = None
        self.num_calls = 0

    def add(self, output: Any) -> None:
        """Take in verl's TokenOutput."""
        fields = output.extra_fields
        self.global_steps = fields.get("global_steps")
        if self.num_calls == 0:
            self.num_cached_tokens = fields.get("num_cached_tokens")
        if output.num_preempted is not None:
            self.num_preempted = (self.num_preempted or 0) + output.num_preempted
        self.num_calls += 1

    def add_chunk(self, chunk: Chunk, result: ChunkResult, global_steps: int | None) -> None:
        """Take in a chunk of Seer's engine."""
        self.global_steps = global_steps
        if self.num_calls == 0:
            num_prompt = len(chunk.prompt_token_ids)
            self.num_cached_tokens = max(0, num_prompt - result.stats.num_prompt_prefilled)
        self.num_preempted = (self.num_preempted or 0) + result.stats.num_preemptions
        self.num_calls += 1


class VerlServer:
    """One server actor, as the function that a borrowed engine calls."""

    def __init__(
        self,
        instance_id: int,
        handle: Any,
        *,
        params: Callable[[int], Mapping[str, Any]],
        notes: Mapping[RequestId, Note],
        eos_token_ids: Sequence[int],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        """`params` gives verl's parameters by the seed of an Ask's sampling."""
        self._instance_id = instance_id
        self._handle = handle
        self._params = params
        self._notes = notes
        self._eos_token_ids = eos_token_ids
        self._decode = decode

    async def __call__(self, ask: Ask) -> Answer:
        """One chunk; where verl aborts it, it goes on here when generation is resumed.

        Raises InstanceLost when the actor is gone or rejects requests, EngineFailure when weights
        changed within the chunk.
        """
        token_ids: list[int] = []
        logprobs: list[float] = []
        first = Note()
        num_empty = 0
        while True:
            output = await self._generate(ask, token_ids)
            version = output.extra_fields.get("global_steps")
            self._notes[ask.request_id].add(output)
            if not token_ids:
                first = Note()
                first.add(output)
            elif version != first.global_steps:
                raise EngineFailure(
                    f"the weights changed within a response, from step {first.global_steps} to "
                    f"{version}: Seer needs a synchronous trainer (trainer.v1.trainer_mode=sync)"
                )
            token_ids += output.token_ids
            logprobs += output.log_probs or []
            if output.stop_reason not in _ABORTED or len(token_ids) >= ask.max_tokens:
                break
            num_empty = 0 if output.token_ids else num_empty + 1
            if num_empty >= _EMPTY_ABORTS:
                raise InstanceLost(self._instance_id, "its server rejects requests")
            await asyncio.sleep(_RETRY_S)
        return Answer(
            token_ids=token_ids,
            logprobs=logprobs,
            finish="stop" if self._is_stop(ask, token_ids) else "length",
            cached_tokens=first.num_cached_tokens,
            weight_version=None if version is None else str(version),
        )

    async def _generate(self, ask: Ask, token_ids: list[int]) -> Any:
        given = self._params(ask.sampling.seed)
        limits = chunk_limits(
            given, ask.max_tokens - len(token_ids), ask.num_generated + len(token_ids)
        )
        if "min_tokens" not in given:  # SGLang knows no parameter of this name
            del limits["min_tokens"]
        request_id = uuid4().hex
        try:
            return await self._handle.generate.remote(
                request_id=request_id,
                prompt_ids=[*ask.token_ids, *token_ids],
                sampling_params={**given, **limits, "logprobs": True},
                image_data=None,
                video_data=None,
            )
        except asyncio.CancelledError:
            if hasattr(self._handle, "abort_request"):
                self._handle.abort_request.remote(request_id)
            raise
        except RayActorError as error:
            why = " ".join(str(error).split())[:200]
            raise InstanceLost(self._instance_id, why) from error

    def _is_stop(self, ask: Ask, token_ids: Sequence[int]) -> bool:
        """Whether the response is over: verl says `completed` at the end of a chunk, too."""
        if len(token_ids) < ask.max_tokens:
            return True
        check = StopCheck(ask.sampling, self._eos_token_ids, self._decode)
        return check.stops([*ask.token_ids, *token_ids], len(ask.token_ids) - ask.num_generated)
