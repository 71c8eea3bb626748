"""Settings: verl's own keys where it has one, the rest under `rollout.custom.seer`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from seer.drafting.config import OFF, DraftingConfig
from seer.engines.local.spec import LocalSpec
from seer.errors import InvalidInput
from seer.setting_fields import check_minimum
from seer.trainers.verl.versions import check_verl

_MINIMUM = {"chunk_size": 1, "kv_tokens": 16, "max_spread": 0, "prefill_tokens_per_step": 1}
_KEY = "rollout.custom.seer"
_LOGPROBS = {"processed_logprobs": "processed", "raw_logprobs": "raw"}
_DEFAULT_KV_TOKENS = 8192


class VerlSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`+actor_rollout_ref.rollout.custom.seer.*`. Raises InvalidInput on a bad value."""

    policy: str = "divided"
    """As in docs/rollout.md."""
    chunk_size: int = 2048
    """Tokens a call of a server's `generate`. # Paper silent: each call passes through the server's
    queue and prefix cache again, which costs more than with an engine of Seer's own."""
    max_spread: int = 32
    """As in PlacementConfig."""
    kv_tokens: int | None = None
    """KV tokens that one server holds. None: with Seer's engine 8192; verl's do not say, so no
    limit, and then a server may preempt."""
    device: str | None = None
    """Of Seer's engine; None: cuda where verl gives its workers a GPU, else cpu."""
    drafting: str = OFF
    """Of Seer's engine: a budget, as in docs/drafting.md."""
    prefill_tokens_per_step: int = 256
    """Of Seer's engine."""
    weights_dir: str | None = None
    """Where new weights for Seer's engine are written; None: shared memory if they fit."""
    allow_untried_verl: bool = False

    def __post_init__(self) -> None:
        check_minimum(self, _MINIMUM)
        DraftingConfig(budget=self.drafting)


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """verl's limits of a trajectory, in tokens."""

    prompt_length: int
    response_length: int
    max_model_len: int | None = None

    @property
    def max_context_tokens(self) -> int:
        """Of a server that does not say: vLLM under verl is given these limits."""
        return self.max_model_len or self.prompt_length + self.response_length

    def limit(self, params: Mapping[str, Any], num_prompt: int, max_context: int) -> int:
        """Tokens that one `generate` may return, by the rule of verl's vLLM server.

        What the caller asks for, else what is left of prompt_length + response_length; both within
        the context. Raises InvalidInput when the prompt leaves no room for a token.
        """
        room = min(max_context, self.max_model_len or max_context) - num_prompt
        if room < 1:
            allowed = f"allowed: a prompt shorter than the context ({room + num_prompt} tokens)"
            raise InvalidInput("prompt_ids", f"{num_prompt} tokens", allowed)
        left = self.prompt_length + self.response_length - num_prompt
        asked = params.get("max_tokens") or params.get("max_new_tokens")
        return max(1, min(asked or min(self.response_length, left), room))


def read_settings(rollout: Any) -> VerlSettings:
    """Of a rollout configuration of verl, whose release is checked. Raises InvalidInput."""
    custom = _plain(rollout.get("custom")) or {}
    try:
        settings = msgspec.convert(custom.get("seer") or {}, VerlSettings)
    except msgspec.ValidationError as error:
        raise InvalidInput(_KEY, custom["seer"], f"allowed: see docs/verl.md ({error})") from None
    check_verl(allow_untried=settings.allow_untried_verl)
    return settings


def read_lengths(rollout: Any) -> Lengths:
    """Of a rollout configuration."""
    return Lengths(
        prompt_length=rollout.get("prompt_length"),
        response_length=rollout.get("response_length"),
        max_model_len=rollout.get("max_model_len"),
    )


def engine_spec(rollout: Any, model: Any, settings: VerlSettings, device: str) -> LocalSpec:
    """Seer's engine as verl's keys and Seer's want it.

    `rollout` and `model` are verl's RolloutConfig and HFModelConfig. Raises InvalidInput for keys
    that ask for what the engine has not.
    """
    _check_engine_keys(rollout, model)
    return LocalSpec(
        model=str(model.local_path),
        dtype=str(rollout.get("dtype")),
        device=device,
        kv_tokens=settings.kv_tokens or _DEFAULT_KV_TOKENS,
        max_running_requests=rollout.get("max_num_seqs"),
        prefill_tokens_per_step=settings.prefill_tokens_per_step,
        logprobs="raw" if _logprobs_mode(rollout) == "raw" else "processed",
    )


def _check_engine_keys(rollout: Any, model: Any) -> None:
    one_device = "allowed: 1 with rollout.name=seer, whose engine runs on one device"
    for key in (
        "tensor_model_parallel_size",
        "data_parallel_size",
        "pipeline_model_parallel_size",
        "expert_parallel_size",
    ):
        if rollout.get(key) != 1:
            raise InvalidInput(f"rollout.{key}", rollout.get(key), one_device)
    for key in ("quantization", "quantization_config_file"):
        if rollout.get(key) is not None:
            raise InvalidInput(f"rollout.{key}", rollout.get(key), "allowed: null with name=seer")
    if rollout.get("enable_rollout_routing_replay"):
        allowed = "allowed: false with name=seer, whose models have no experts"
        raise InvalidInput("rollout.enable_rollout_routing_replay", value=True, allowed=allowed)
    if (model.get("lora_rank") or 0) > 0 or model.get("lora_adapter_path"):
        allowed = "allowed: no LoRA with rollout.name=seer"
        raise InvalidInput("model.lora_rank", model.get("lora_rank"), allowed)
    _logprobs_mode(rollout)


def _logprobs_mode(rollout: Any) -> str:
    mode = rollout.get("logprobs_mode")
    if mode not in _LOGPROBS:
        raise InvalidInput("rollout.logprobs_mode", mode, f"allowed: {', '.join(_LOGPROBS)}")
    return _LOGPROBS[mode]


def _plain(value: Any) -> Any:
    """Of a configuration value of any kind: dictionaries and lists all the way."""
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in value}
    return value
