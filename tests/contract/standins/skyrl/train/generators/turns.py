"""A generator that asks as SkyRLGymGenerator does: a loop for each trajectory, or one call."""

import asyncio
from typing import Any

from skyrl.train.generators.base import GeneratorInput, GeneratorInterface, GeneratorOutput


class TurnsGenerator(GeneratorInterface):
    """As many turns as `env_extras` say; between them the environment says `more`."""

    def __init__(self, client: Any, tokenizer: Any, *, batched: bool) -> None:
        self.client = client
        self.tokenizer = tokenizer
        self.batched = batched

    async def generate(self, input_batch: GeneratorInput) -> GeneratorOutput:
        """The batch."""
        if self.batched:
            return await self._generate_batched(input_batch)
        ids = input_batch["trajectory_ids"]
        extras = input_batch["env_extras"]
        assert ids is not None
        assert extras is not None
        loops = [
            self._loop(prompt, f"{each.instance_id}_{each.repetition_id}", extra, input_batch)
            for prompt, each, extra in zip(input_batch["prompts"], ids, extras, strict=True)
        ]
        return _output(await asyncio.gather(*loops))

    async def _loop(
        self, prompt: Any, session: str, extra: dict[str, Any], batch: GeneratorInput
    ) -> dict[str, Any]:
        try:
            # The environment is set up in a thread, which takes as long as it takes.
            await asyncio.to_thread(lambda: None)
            prompt_ids = self.tokenizer.apply_chat_template(prompt)
            tokens: list[int] = []
            mask: list[int] = []
            logprobs: list[float] = []
            if extra.get("is_too_long"):
                return _row(prompt_ids, [0], [0], [0.0], 0.0, "length")
            for turn in range(extra.get("turns", 1)):
                if turn:
                    more = self.tokenizer.encode(" more ", add_special_tokens=False)
                    tokens, mask = tokens + more, mask + [0] * len(more)
                    logprobs += [0.0] * len(more)
                output = await self.client.generate(
                    {
                        "prompt_token_ids": [prompt_ids + tokens],
                        "session_ids": [session],
                        "sampling_params": batch["sampling_params"],
                        "cache_salt": str(self.client.weight_version),
                    },
                    model=None,
                )
                (new,), (values,) = output["response_ids"], output["response_logprobs"]
                assert (
                    self.tokenizer.decode(new, skip_special_tokens=True) == output["responses"][0]
                )
                tokens, mask = tokens + new, mask + [1] * len(new)
                logprobs += values
            reward = extra.get("reward", 1.0)
            return _row(prompt_ids, tokens, mask, logprobs, reward, output["stop_reasons"][0])
        finally:
            await self.client.finish_session(session)

    async def _generate_batched(self, batch: GeneratorInput) -> GeneratorOutput:
        prompts = [self.tokenizer.apply_chat_template(prompt) for prompt in batch["prompts"]]
        output = await self.client.generate(
            {"prompt_token_ids": prompts, "sampling_params": batch["sampling_params"]}
        )
        columns = (output["response_ids"], output["response_logprobs"], output["stop_reasons"])
        return _output(
            [
                _row(prompt, new, [1] * len(new), values, 1.0, stop)
                for prompt, new, values, stop in zip(prompts, *columns, strict=True)
            ]
        )


def _row(  # noqa: PLR0917 - a row
    prompt: list[int],
    tokens: list[int],
    mask: list[int],
    logprobs: list[float],
    reward: float,
    stop: str,
) -> dict[str, Any]:
    return {
        "prompt_token_ids": prompt,
        "response_ids": tokens,
        "loss_masks": mask,
        "rollout_logprobs": logprobs,
        "rewards": reward,
        "stop_reasons": stop,
    }


def _output(rows: list[dict[str, Any]]) -> Any:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {**columns, "rollout_metrics": {"generate/rows": len(rows)}}
