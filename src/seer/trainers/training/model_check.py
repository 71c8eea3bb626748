"""What can be refused before any weight is loaded: missing packages, tokenizer, sizes."""

import importlib.util
from typing import Any

from seer.engines.local.model_config import read_model_config
from seer.engines.local.spec import LocalSpec
from seer.engines.vllm.spec import VllmSpec
from seer.engines.vllm.versions import check_vllm
from seer.errors import EngineFailure, InvalidInput
from seer.rollout.controller_config import check_fits
from seer.rollout.engine import EngineSpec
from seer.rollout.prompts import encode_prompts
from seer.trainers.training.config import TrainConfig
from seer.trainers.training.items import ItemSet
from seer.types import GroupSpec

NEEDED = ("torch", "transformers", "trl", "datasets")


def check_installed(config: TrainConfig) -> None:
    """Raise EngineFailure when what trains is missing, InvalidInput when a log's sink is."""
    missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
    if missing:
        raise EngineFailure(
            f"training needs {', '.join(missing)}: pip install 'seer-rl[local,tasks,trl]'"
        )
    for name in config.log:
        if not importlib.util.find_spec(name):
            raise InvalidInput("log", name, f"needs it: pip install {name}")


def engine_spec(config: TrainConfig, model: str) -> LocalSpec | VllmSpec:
    """The engine of the rollout. Raises InvalidInput on a bad setting, EngineFailure without it."""
    if config.engine == "vllm":
        return _vllm_spec(config, model)
    return LocalSpec(
        model=model,
        dtype=config.dtype,
        device=config.device,
        kv_tokens=config.kv_tokens,
        max_running_requests=config.max_running,
    )


def _vllm_spec(config: TrainConfig, model: str) -> VllmSpec:
    spec = VllmSpec(
        model=model,
        dtype=config.dtype,
        device=config.device,
        kv_tokens=config.kv_tokens,
        max_running_requests=config.max_running,
        allow_untried=config.allow_untried_vllm,
    )
    check_vllm(spec.device, allow_untried=spec.allow_untried)
    return spec


def load_tokenizer(model: str) -> Any:
    """The model's tokenizer, as the trainer wants it. Raises InvalidInput."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - heavy, optional

    try:
        return AutoTokenizer.from_pretrained(model, local_files_only=True, padding_side="left")
    except (OSError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise InvalidInput("model", model, f"its tokenizer does not load ({why})") from error


def check_tokenizer(model: str, tokenizer: Any) -> None:
    """Raise InvalidInput when model and tokenizer do not belong together."""
    described = read_model_config(model)
    largest = max(tokenizer.get_vocab().values())
    if largest >= described.vocab_size:
        raise InvalidInput(
            "model",
            model,
            f"allowed: a tokenizer that matches the model; its ids go up to {largest}, "
            f"the model has {described.vocab_size} of them",
        )
    if tokenizer.eos_token_id not in described.eos_token_ids:
        raise InvalidInput(
            "model",
            model,
            f"allowed: a tokenizer that matches the model; its end token is "
            f"{tokenizer.eos_token_id}, the model ends with {list(described.eos_token_ids)}",
        )


def check_prompts(spec: EngineSpec, items: ItemSet, max_tokens: int) -> None:
    """Raise InvalidInput when a prompt with its response fits neither context nor KV memory."""
    info = spec.describe()
    prompts = [item.messages for item in (*items.train, *items.held_out)]
    encoded = encode_prompts(prompts, spec.tokenizer(), info)
    longest = max(len(prompt.token_ids) for prompt in encoded)
    check_fits(
        GroupSpec(group_id=0, group_size=1, num_prompt_tokens=longest, max_tokens=max_tokens), info
    )
