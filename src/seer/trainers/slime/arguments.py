"""What Seer reads of slime's arguments, and what of them it cannot serve.

Names are slime's own (`slime/utils/arguments.py`). Seer's settings have `seer_` before their names;
slime puts every key of the YAML file given by `--custom-config-path` among its arguments.
"""

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import msgspec

from seer.errors import InvalidInput
from seer.trainers.borrowed.spec import BorrowedSettings
from seer.types import SamplingParams

_PREFIX = "seer_"
_REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "partial_rollout": (
        (None, False),
        "off: a Seer rollout ends with all of its responses, from one version of the weights",
    ),
    "custom_generate_function_path": (
        (None,),
        "none: Seer generates single turns; use slime's own rollout for agents",
    ),
    "rollout_sample_hook_path": ((None, []), "none"),
    "rollout_all_samples_process_path": ((None,), "none"),
    "use_rollout_routing_replay": ((None, False), "off: Seer hands on no routed experts"),
    "rollout_top_p": (
        (1, 1.0),
        "1.0: slime replays which tokens a nucleus kept, which Seer does not hand on",
    ),
    "sglang_enable_deterministic_inference": (
        (None, False),
        "off: a seed would repeat its draws in every chunk",
    ),
}
"""Values that change nothing, and what is said of others."""


def check_arguments(args: Namespace) -> None:
    """Raise InvalidInput, naming slime's argument, for what Seer does not do."""
    for name, (neutral, allowed) in _REFUSED.items():
        value = getattr(args, name, neutral[0])
        if value not in neutral:
            raise InvalidInput(name, value, f"allowed: {allowed}")


def rollout_sampling(args: Namespace) -> SamplingParams:
    """The rollout's sampling; SGLang's -1 for `top_k` is off."""
    return SamplingParams(
        temperature=args.rollout_temperature,
        top_k=max(0, args.rollout_top_k),
        max_tokens=args.rollout_max_response_len,
        stop=tuple(args.rollout_stop or ()),
        stop_token_ids=tuple(args.rollout_stop_token_ids or ()),
    )


def seer_settings(args: Namespace) -> BorrowedSettings:
    """Seer's settings among slime's arguments; slime's own concurrency limits an engine.

    Raises InvalidInput for one that Seer does not have, or a bad value.
    """
    given: dict[str, Any] = {"max_running": args.sglang_server_concurrency}
    names = {field.name for field in msgspec.structs.fields(BorrowedSettings)}
    for name, value in vars(args).items():
        if not name.startswith(_PREFIX):
            continue
        setting = name.removeprefix(_PREFIX)
        if setting not in names:
            known = ", ".join(sorted(_PREFIX + each for each in names))
            raise InvalidInput(name, value, f"allowed: {known}")
        given[setting] = value
    try:
        return msgspec.convert(given, BorrowedSettings)
    except msgspec.ValidationError as error:
        raise InvalidInput("seer_ settings", given, f"allowed: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sizes of a rollout, in groups and samples."""

    num_groups: int
    num_asked: int
    """Groups to take at once; more than `num_groups` where a filter will drop some."""
    group_size: int


def batch_of(args: Namespace) -> Batch:
    """The sizes; raises InvalidInput where they do not fit each other."""
    batch = Batch(
        num_groups=args.rollout_batch_size,
        num_asked=getattr(args, "over_sampling_batch_size", None) or args.rollout_batch_size,
        group_size=args.n_samples_per_prompt,
    )
    if batch.num_asked < batch.num_groups:
        allowed = f"allowed: at least rollout_batch_size ({batch.num_groups})"
        raise InvalidInput("over_sampling_batch_size", batch.num_asked, allowed)
    return batch
