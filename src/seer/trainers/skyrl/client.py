"""SkyRL's inference client, with `generate` through Seer's controller while a batch is open.

SkyRL's generators ask the client for one turn of one trajectory at a time (or, with
`generator.batched`, for all at once). The first turns of the trajectories of one prompt are held
until all have come: they are a group. Later turns differ and are groups of one: Seer divides and
places them too, by load; the KV of the turns before is found again only by luck.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from seer.errors import EngineFailure, InvalidInput
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.results import Completion
from seer.rollout.rollout import Rollout
from seer.trainers.borrowed.engine import Answer, Ask
from seer.trainers.borrowed.group_gate import GroupGate
from seer.trainers.borrowed.spec import BorrowedSettings, HFTokens, borrowed_config
from seer.trainers.borrowed.vllm_params import chunk_limits, seer_sampling
from seer.types import FinishReason, SamplingParams


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a caller sends along with its prompts."""

    params: Mapping[str, Any]
    model: str | None
    cache_salt: str | None


class Roster:
    """Holds the first turn of each trajectory until those of its siblings have come."""

    def __init__(self, sessions: Sequence[tuple[str, str]]) -> None:
        """Pairs of a trajectory's session id and its prompt's id."""
        self._prompt_of = dict(sessions)
        self._absent: dict[str, set[str]] = {}
        self._complete: dict[str, asyncio.Event] = {}
        for session, prompt in sessions:
            self._absent.setdefault(prompt, set()).add(session)
            self._complete.setdefault(prompt, asyncio.Event())

    async def arrive(self, session: str) -> None:
        """Wait for the siblings at the first turn; later ones pass, as unknown sessions do."""
        prompt = self._prompt_of.get(session)
        if prompt is None or session not in self._absent[prompt]:
            return
        self.leave(session)
        await self._complete[prompt].wait()

    def leave(self, session: str) -> None:
        """Nobody need wait for it any more."""
        prompt = self._prompt_of.get(session)
        if prompt is None:
            return
        self._absent[prompt].discard(session)
        if not self._absent[prompt]:
            self._complete[prompt].set()


@dataclasses.dataclass(slots=True)
class Batch:
    """A batch in progress."""

    rollout: Rollout
    gate: GroupGate
    roster: Roster

    def metrics(self) -> RolloutMetrics:
        """Figures of its rollout so far."""
        return self.rollout.metrics()


class SeerClient:
    """Stands before SkyRL's RemoteInferenceClient; what is not generation passes through."""

    def __init__(
        self, client: Any, tokenizer: Any, settings: BorrowedSettings, max_context_tokens: int
    ) -> None:
        """`client` is a RemoteInferenceClient: a server's own has that one as its proxy."""
        self._client = client
        self._asked: dict[SamplingParams, _Asked] = {}
        self._batch: Batch | None = None
        # A data-plane address may be a server itself: so each server is called past the router.
        servers = [dataclasses.replace(client, proxy_url=url) for url in client.server_urls]
        self._config = borrowed_config(
            settings,
            model=client.model_name,
            engines=[_Server(server, self._asked) for server in servers],
            tokens=HFTokens(tokenizer),
            vocab_size=len(tokenizer),
            max_context_tokens=max_context_tokens,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @asynccontextmanager
    async def batch(self, sessions: Sequence[tuple[str, str]]) -> AsyncIterator[Batch]:
        """A rollout session for a batch of trajectories: (session id, prompt id) of each.

        Raises EngineFailure for a second one at the same time, and at the end when the weights
        were updated in between.
        """
        if self._batch is not None:
            raise EngineFailure("a batch is being generated: one at a time")
        version = self._client.weight_version
        async with Rollout(self._config) as rollout:
            self._batch = Batch(rollout, GroupGate(rollout), Roster(sessions))
            try:
                yield self._batch
            finally:
                self._batch = None
                self._asked.clear()
        if self._client.weight_version != version:
            raise EngineFailure("the weights were updated while a batch was generated")

    async def generate(
        self, input_batch: Mapping[str, Any], model: str | None = None
    ) -> dict[str, Any]:
        """SkyRL's `generate`: token ids in, InferenceEngineOutput out; outside a batch as it was.

        Raises InvalidInput for images and for sampling that cannot be divided.
        """
        if self._batch is None:
            output: dict[str, Any] = await self._client.generate(input_batch, model=model)
            return output
        if input_batch.get("mm_features"):
            raise InvalidInput("mm_features", "some", "allowed: none; Seer takes text only")
        params = input_batch.get("sampling_params") or {}
        sampling = seer_sampling(params)
        salt = input_batch.get("cache_salt")
        self._asked[sampling] = _Asked(params=params, model=model, cache_salt=salt)
        prompts = input_batch["prompt_token_ids"]
        sessions = input_batch.get("session_ids") or [None] * len(prompts)
        completions = await asyncio.gather(
            *(
                _turn(self._batch, prompt, str(session), sampling)
                for prompt, session in zip(prompts, sessions, strict=True)
            )
        )
        return _output(completions, has_logprobs=params.get("logprobs") is not None)

    async def finish_session(self, session_id: str) -> None:
        """A trajectory is over: its siblings need not wait for it."""
        if self._batch is not None:
            self._batch.roster.leave(session_id)
        await self._client.finish_session(session_id)


class _Server:
    """One vLLM server."""

    def __init__(self, client: Any, asked: Mapping[SamplingParams, _Asked]) -> None:
        self._client = client
        self._asked = asked

    async def __call__(self, ask: Ask) -> Answer:
        """One chunk, with the caller's parameters but for its limits."""
        asked = self._asked[ask.sampling]
        limits = chunk_limits(asked.params, ask.max_tokens, ask.num_generated)
        logprobs = asked.params.get("logprobs") or 0  # 0: that of the token drawn alone
        output = await self._client.generate(
            {
                "prompt_token_ids": [ask.token_ids],
                "sampling_params": {**asked.params, **limits, "logprobs": logprobs},
                "cache_salt": asked.cache_salt,
            },
            model=asked.model,
        )
        finish = output["stop_reasons"][0]
        if finish not in ("stop", "length"):
            raise RuntimeError(f"a response was cut off by the server: {finish}")
        return Answer(
            token_ids=list(output["response_ids"][0]),
            logprobs=list(output["response_logprobs"][0]),
            finish=finish,
        )


async def _turn(
    batch: Batch, prompt: Sequence[int], session: str, sampling: SamplingParams
) -> Completion:
    await batch.roster.arrive(session)
    return await batch.gate.generate(prompt, sampling)


def _output(completions: Sequence[Completion], *, has_logprobs: bool) -> dict[str, Any]:
    return {
        "responses": [completion.text for completion in completions],
        "response_ids": [completion.output_token_ids for completion in completions],
        "stop_reasons": [
            "length" if completion.finish_reason is FinishReason.LENGTH else "stop"
            for completion in completions
        ],
        "response_logprobs": [c.logprobs for c in completions] if has_logprobs else None,
        "rollout_expert_indices": None,
    }
