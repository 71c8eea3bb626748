"""SkyRL's client of its vLLM servers (0.3.0), with scripted ones behind their addresses."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from support.scripted_lm import CharTokenizer, ScriptedLM

SERVERS: dict[str, tuple[ScriptedLM, int]] = {}
"""Model and engine number by address."""


@dataclass
class RemoteInferenceClient:
    """One address to generate, a list of them to control."""

    proxy_url: str
    server_urls: list[str]
    data_parallel_size: int
    model_name: str = "default"
    tokenizer: Any = None
    _weight_version: int = field(default=0, repr=False)
    finished: list[str] = field(default_factory=list)

    @property
    def weight_version(self) -> int:
        """Grows with each weight sync."""
        return self._weight_version

    def increment_weight_version(self) -> None:
        """After a weight sync."""
        self._weight_version += 1

    async def generate(self, input_batch: dict[str, Any], model: str | None = None) -> Any:
        """Token ids in, token ids out."""
        del model
        params = input_batch["sampling_params"]
        lm, engine = SERVERS[self.proxy_url]
        ids, values, stops = [], [], []
        for context in input_batch["prompt_token_ids"]:
            limit, least = params["max_tokens"], params["min_tokens"]
            number = lm.begin(engine, context, limit, min_tokens=least)
            tokens, logprobs, finish = lm.generate(context, limit)
            for _ in tokens:
                await asyncio.sleep(0)
            lm.end(engine, number)
            ids.append(tokens)
            values.append(logprobs)
            stops.append(finish)
        decode = CharTokenizer().decode
        return {
            "responses": [decode(tokens, skip_special_tokens=True) for tokens in ids],
            "response_ids": ids,
            "stop_reasons": stops,
            "response_logprobs": values if params.get("logprobs") is not None else None,
        }

    async def finish_session(self, session_id: str) -> None:
        """The trajectory is over."""
        self.finished.append(session_id)
