"""Seer in OpenRLHF: an agent file for `--train.agent_func_path`.

>>> from openrlhf.utils.agent import SingleTurnAgentExecutor
>>> from seer.trainers.openrlhf.executor import seer_executor
>>> AgentExecutor = seer_executor(lambda: SingleTurnAgentExecutor("reward.py"))

The interface is that of OpenRLHF 0.11.2 (OpenRLHF/OpenRLHF at
3c3be6234e0cb353e76bb8019947db9dfe99fca7, files `openrlhf/utils/agent.py`,
`openrlhf/trainer/ray/vllm_engine.py`). OpenRLHF deals prompts over its vLLM actors and starts, on
one of them, an `execute` for each sample; an executor sees its own actor's engine alone. So Seer's
controller here rules over one engine: it divides responses into chunks, orders them and keeps their
KV within the engine's memory. It places nothing on other engines.
"""

import asyncio
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from seer.errors import InvalidInput
from seer.rollout.config import RolloutConfig
from seer.rollout.results import Completion
from seer.rollout.rollout import Rollout
from seer.trainers.borrowed.engine import Answer, Ask
from seer.trainers.borrowed.group_gate import GroupGate
from seer.trainers.borrowed.rewards import check_reward
from seer.trainers.borrowed.spec import BorrowedSettings, HFTokens, borrowed_config
from seer.trainers.borrowed.vllm_params import NAMES, chunk_limits, seer_sampling
from seer.types import FinishReason, SamplingParams


def seer_executor(make_inner: Callable[[], Any], **settings: Any) -> type[AgentExecutorBase]:
    """The class `AgentExecutor` of an agent file.

    `make_inner` makes the executor that Seer serves: OpenRLHF's SingleTurnAgentExecutor with its
    reward function, MultiTurnAgentExecutor with an agent, or one of your own; it calls
    `llm_engine.generate` as before. `settings` are those of BorrowedSettings; `kv_tokens` None is
    what vLLM says. Raises InvalidInput on a bad one.
    """
    checked = BorrowedSettings(**settings)

    class SeerAgentExecutor(AgentExecutorBase):  # type: ignore[misc]  # OpenRLHF is not typed
        def __init__(self) -> None:
            self._inner = make_inner()
            self._engine: SeerEngine | None = None

        async def execute(  # noqa: PLR0917 - OpenRLHF's signature
            self,
            prompt: Any,
            label: Any,
            sampling_params: Any,
            max_length: int,
            hf_tokenizer: Any,
            llm_engine: Any,
            images: Any = None,
        ) -> dict[str, Any]:
            """One sample, by the inner executor. Raises InvalidInput for what Seer cannot serve."""
            if images:
                raise InvalidInput("images", "some", "allowed: none; Seer takes text only")
            if self._engine is None:
                self._engine = SeerEngine(llm_engine, hf_tokenizer, max_length, checked)
            output: dict[str, Any] = await self._inner.execute(
                prompt=prompt,
                label=label,
                sampling_params=sampling_params,
                max_length=max_length,
                hf_tokenizer=hf_tokenizer,
                llm_engine=self._engine,
                images=images,
            )
            if output.get("reward") is not None:
                check_reward(output["reward"], f"a response to {prompt!r}")
            return output

    return SeerAgentExecutor


class SeerEngine:
    """OpenRLHF's engine, with `generate` through Seer's controller.

    A rollout session begins with the first call and ends when none is waiting. OpenRLHF updates
    weights when its engines are idle, so a session never spans two versions, unless
    `--train.async_enable` updates them in between, which an executor is not told of.
    """

    def __init__(
        self, engine: Any, tokenizer: Any, max_length: int, settings: BorrowedSettings
    ) -> None:
        """`engine` is the actor that executors get as `llm_engine`."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._params: dict[SamplingParams, Any] = {}
        self._config = borrowed_config(
            settings,
            model=str(getattr(tokenizer, "name_or_path", "policy")),
            engines=[self._chunk],
            tokens=HFTokens(tokenizer, skip_special_tokens=False),
            vocab_size=len(tokenizer),
            max_context_tokens=max_length,
            stated_kv_tokens=_stated_kv_tokens(engine),
        )
        self._session: _Session | None = None

    async def generate(
        self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None
    ) -> "Output":
        """One response, in chunks; what is read of vLLM's RequestOutput."""
        if multi_modal_data:
            raise InvalidInput("multi_modal_data", "some", "allowed: none; Seer takes text only")
        params = {name: getattr(sampling_params, name, None) for name in NAMES}
        sampling = seer_sampling(params)
        self._params[sampling] = sampling_params
        if self._session is None:
            self._session = _Session(self._config)
        session = self._session
        try:
            completion = await session.generate(prompt_token_ids, sampling)
        finally:
            if session.num_waiting == 0 and self._session is session:
                self._session = None
                self._params.clear()
        text = self._tokenizer.decode(
            completion.output_token_ids, skip_special_tokens=sampling_params.skip_special_tokens
        )
        return _output(completion, text, has_logprobs=sampling_params.logprobs is not None)

    async def _chunk(self, ask: Ask) -> Answer:
        """One chunk on vLLM, with the caller's parameters but for its limits."""
        given = self._params[ask.sampling]
        params = copy(given)
        limits = chunk_limits({"min_tokens": given.min_tokens}, ask.max_tokens, ask.num_generated)
        params.max_tokens, params.min_tokens = limits["max_tokens"], limits["min_tokens"]
        params.logprobs = given.logprobs or 0  # 0: that of the token drawn alone
        request = await self._engine.generate(ask.token_ids, params)
        output = request.outputs[0]
        if output.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"a response was cut off by vLLM: {output.finish_reason}")
        token_ids = list(output.token_ids)
        return Answer(
            token_ids=token_ids,
            logprobs=[
                at[token].logprob for token, at in zip(token_ids, output.logprobs, strict=True)
            ],
            finish=output.finish_reason,
            cached_tokens=getattr(request, "num_cached_tokens", None),
        )


class _Session:
    """One rollout session, in a task of its own, while calls are waiting."""

    def __init__(self, config: RolloutConfig) -> None:
        self.num_waiting = 0
        self._config = config
        self._gate: asyncio.Future[GroupGate] = asyncio.get_running_loop().create_future()
        self._is_idle = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def generate(self, prompt: list[int], sampling: SamplingParams) -> Completion:
        """One response; the session ends with the last call that waits."""
        self.num_waiting += 1
        try:
            gate = await asyncio.shield(self._gate)
            return await gate.generate(prompt, sampling)
        finally:
            self.num_waiting -= 1
            if self.num_waiting == 0:
                self._is_idle.set()

    async def _run(self) -> None:
        try:
            async with Rollout(self._config) as rollout:
                self._gate.set_result(GroupGate(rollout))
                await self._is_idle.wait()
        except Exception as error:
            if self._gate.done():
                raise
            self._gate.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logprob:
    """As vLLM's."""

    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOutput:
    """What executors read of vLLM's class of that name."""

    token_ids: list[int]
    text: str
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What executors read of vLLM's RequestOutput."""

    outputs: list[CompletionOutput]


def _output(completion: Completion, text: str, *, has_logprobs: bool) -> Output:
    pairs = zip(completion.output_token_ids, completion.logprobs, strict=True)
    is_cut = completion.finish_reason is FinishReason.LENGTH
    return Output(
        outputs=[
            CompletionOutput(
                token_ids=completion.output_token_ids,
                text=text,
                logprobs=(
                    [{token: Logprob(logprob=value)} for token, value in pairs]
                    if has_logprobs
                    else None
                ),
                finish_reason="length" if is_cut else "stop",
            )
        ]
    )


def _stated_kv_tokens(engine: Any) -> int | None:
    """KV tokens that vLLM has room for, where its configuration says so."""
    config = getattr(getattr(engine, "llm", None), "vllm_config", None)
    cache = getattr(config, "cache_config", None)
    blocks = getattr(cache, "num_gpu_blocks", None)
    return blocks * cache.block_size if blocks and cache is not None else None
