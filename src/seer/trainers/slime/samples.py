"""Groups of slime's samples: what Seer takes from them, and what it fills in.

Fields are those of `slime.utils.types.Sample`.
"""

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from slime.rollout.rm_hub import async_rm, batched_async_rm
from slime.utils.types import Sample

from seer.errors import InvalidInput
from seer.rollout.prompts import PromptItem
from seer.rollout.results import Completion, GroupResult
from seer.trainers.borrowed.rewards import check_reward
from seer.types import FinishReason


def check_groups(groups: Sequence[Sequence[Any]], num_groups: int, group_size: int) -> None:
    """Raise InvalidInput unless these are new samples, a prompt `group_size` times in each."""
    if len(groups) != num_groups:
        raise InvalidInput("get_samples", f"{len(groups)} groups", f"allowed: {num_groups}")
    for group in groups:
        if len(group) != group_size:
            allowed = f"allowed: n_samples_per_prompt ({group_size}) samples in each"
            raise InvalidInput("get_samples", f"a group of {len(group)}", allowed)
        for sample in group:
            _check_sample(sample, group[0])


def _check_sample(sample: Any, first: Any) -> None:
    name = f"sample {sample.index}"
    if sample.prompt != first.prompt:
        allowed = f"allowed: the prompt of sample {first.index}, in whose group it is"
        raise InvalidInput("prompt", name, allowed)
    if sample.status != Sample.Status.PENDING or sample.response_length:
        raise InvalidInput("status", f"{name}: {sample.status}", "allowed: pending, nothing done")
    if any(value is not None for value in (sample.multimodal_inputs or {}).values()):
        raise InvalidInput("multimodal_inputs", name, "allowed: none; Seer takes text only")


def prompt_item(group: Sequence[Any], tokenizer: Any, place: int) -> PromptItem:
    """The prompt of a group; slime has put messages through the chat template already, if asked."""
    first = group[0]
    if not isinstance(first.prompt, str):
        allowed = "allowed: text; set --apply-chat-template for messages"
        raise InvalidInput("prompt", f"sample {first.index}", allowed)
    token_ids = list(first.tokens) or tokenizer.encode(first.prompt, add_special_tokens=False)
    return PromptItem(prompt=list(token_ids), prompt_id=str(place))


def fill_in(group: Sequence[Any], result: GroupResult, version: str | None) -> None:
    """Give each sample its response; `version` is the weights', if the engines name it."""
    for sample, completion in zip(group, result.completions, strict=True):
        _fill_in(sample, result.prompt_token_ids, completion)
        if version is not None:
            sample.weight_versions.append(version)


def _fill_in(sample: Any, prompt: list[int], completion: Completion) -> None:
    count = len(completion.output_token_ids)
    is_cut = completion.finish_reason is FinishReason.LENGTH
    sample.tokens = [*prompt, *completion.output_token_ids]
    sample.response = completion.text
    sample.response_length = count
    sample.loss_mask = [1] * count
    sample.rollout_log_probs = list(completion.logprobs)
    sample.status = Sample.Status.TRUNCATED if is_cut else Sample.Status.COMPLETED


async def reward_group(args: Namespace, group: Sequence[Any]) -> None:
    """Rewards by slime's own functions. Raises InvalidInput for one that is no finite number."""
    if args.group_rm:
        rewards = await batched_async_rm(args, group)
    else:
        rewards = await asyncio.gather(*(async_rm(args, sample) for sample in group))
    if len(rewards) != len(group):
        allowed = f"allowed: one for each of {len(group)} samples"
        raise InvalidInput("reward", f"{len(rewards)} of a group", allowed)
    for sample, reward in zip(group, rewards, strict=True):
        sample.reward = reward
        check_reward(sample.get_reward_value(args), f"sample {sample.index}")
