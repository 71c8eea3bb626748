"""The engine that `--engine` names, with everything refused that can be refused without a model."""

import importlib.util

import msgspec

from seer.cli.faithful import VLLM, require_faithful
from seer.cli.model import model_dir
from seer.cli.settings import Settings
from seer.drafting.config import OFF
from seer.engines.local.spec import LocalSpec
from seer.engines.vllm.spec import VllmSpec
from seer.engines.vllm.versions import check_vllm
from seer.errors import EngineFailure, InvalidInput


def choose_engine(settings: Settings) -> LocalSpec | VllmSpec:
    """The engine's spec, checked before the default model is prepared for it.

    Raises InvalidInput; EngineFailure without the engine's libraries.
    """
    spec = _vllm_spec(settings) if settings.engine == VLLM else _local_spec(settings)
    spec = msgspec.structs.replace(spec, model=model_dir(settings.model))
    if isinstance(spec, VllmSpec):
        _check_drafts(spec, settings)
    return spec


def _local_spec(settings: Settings) -> LocalSpec:
    missing = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
    if missing:
        raise EngineFailure(
            f"the local engine needs {' and '.join(missing)}: pip install 'seer-rl[local]'"
        )
    return LocalSpec(
        model=settings.model or "",
        dtype=settings.dtype,
        device=settings.device,
        kv_tokens=settings.kv_tokens,
        max_running_requests=settings.max_running,
        logprobs=settings.logprobs,
    )


def _vllm_spec(settings: Settings) -> VllmSpec:
    spec = VllmSpec(
        model=settings.model or "",
        dtype=settings.dtype,
        device=settings.device,
        kv_tokens=settings.kv_tokens,
        max_running_requests=settings.max_running,
        logprobs=settings.logprobs,
        allow_untried=settings.allow_untried_vllm,
    )
    check_vllm(spec.device, allow_untried=spec.allow_untried)
    return spec


def _check_drafts(spec: VllmSpec, settings: Settings) -> None:
    """Drafts are verified by vLLM's own sampling: only where that is known to be right."""
    for drafting in settings.draftings:
        if drafting == OFF:
            continue
        if settings.min_p > 0:
            raise InvalidInput("min_p", settings.min_p, "allowed with drafts in vLLM: 0")
        require_faithful(spec, drafting, settings.sampling)
