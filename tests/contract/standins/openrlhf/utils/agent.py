"""OpenRLHF's executors (0.11.2), reduced to what passes between them and an engine."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import Any


class AgentExecutorBase(ABC):
    """What `--train.agent_func_path` names a subclass of."""

    @abstractmethod
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
        """One sample."""


class SingleTurnAgentExecutor(AgentExecutorBase):
    """One response and its reward by `reward_func(queries, prompts, labels)` of a Python file."""

    def __init__(self, remote_rm_url: str | None = None) -> None:
        self.reward_endpoints = [remote_rm_url] if remote_rm_url else []
        self.reward_func: Callable[..., dict[str, Any]] | None = None

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
        """One sample."""
        encoded = hf_tokenizer(text=prompt, add_special_tokens=False, return_tensors="pt")
        prompt_ids = encoded["input_ids"][0].tolist()
        params = deepcopy(sampling_params)
        if params.max_tokens is None:
            params.max_tokens = max(1, max_length - len(prompt_ids))
        request = await llm_engine.generate(prompt_ids, params, multi_modal_data=None)
        output = request.outputs[0]
        logprobs = None
        if sampling_params.logprobs is not None:
            pairs = zip(output.token_ids, output.logprobs, strict=True)
            logprobs = [0.0] * len(prompt_ids) + [at[token].logprob for token, at in pairs]
        tokens = prompt_ids + output.token_ids
        reward = None
        if self.reward_func is not None:
            query = hf_tokenizer.decode(tokens, skip_special_tokens=False)
            scored = await asyncio.to_thread(self.reward_func, [query], [prompt], [label])
            reward = scored["rewards"]
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "observation_tokens": tokens,
            "action_ranges": [(len(prompt_ids), len(tokens))],
            "rollout_log_probs": logprobs,
            "truncated": output.finish_reason == "length",
            "reward": reward,
            "scores": reward,
            "extra_logs": {},
        }
