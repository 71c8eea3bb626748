"""The arguments of vLLM's engine that make it an instance of a rollout. Imports no vLLM."""

from typing import TYPE_CHECKING, Any

from seer.engines.vllm.drafting.settings import VllmDrafting
from seer.engines.vllm.kv_connector.settings import transfer_arguments
from seer.rollout.engine import InstanceSetup

if TYPE_CHECKING:
    from seer.engines.vllm.spec import VllmSpec

WORKER_EXTENSION = "seer.engines.vllm.worker_extension.SeerWorker"


def engine_arguments(spec: "VllmSpec", setup: InstanceSetup) -> dict[str, Any]:
    """Keyword arguments of vLLM's AsyncEngineArgs (or of its LLM) for one instance.

    The KV memory is the rollout's number of blocks, not a share of the device: admission counts
    them, so that vLLM never has to preempt.
    """
    arguments = _base_arguments(spec)
    if setup.drafting.is_on:
        drafting = VllmDrafting(
            drafting=setup.drafting, uniform=spec.uniform_drafts, repair=spec.repair_sampler
        )
        _add(arguments, drafting.engine_arguments())
        _make_room_for_drafts(arguments, drafting.max_draft_tokens)
    _add(arguments, transfer_arguments(spec, setup.pool))
    return arguments


def _base_arguments(spec: "VllmSpec") -> dict[str, Any]:
    info = spec.describe()
    # vLLM keeps one block for itself, the null block; and it wants room for a request's last token,
    # which is sampled but never computed.
    num_blocks = info.num_blocks + 2
    return {
        "model": spec.model,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",  # the model's own sampling defaults must not bend ours
        "dtype": spec.dtype,
        "max_model_len": min(info.max_context_tokens, info.kv_capacity_tokens + 1),
        "block_size": spec.block_size,
        "num_gpu_blocks_override": num_blocks,
        "kv_cache_memory_bytes": num_blocks * info.block_bytes // spec.tensor_parallel,
        "max_num_seqs": spec.max_running_requests,
        "max_num_batched_tokens": max(spec.prefill_tokens_per_step, spec.max_running_requests),
        "enable_prefix_caching": True,
        "prefix_caching_hash_algo": "sha256_cbor",  # equal in all processes
        "logprobs_mode": f"{spec.logprobs}_logprobs",
        "tensor_parallel_size": spec.tensor_parallel,
        "enforce_eager": spec.is_eager,
        "worker_extension_cls": WORKER_EXTENSION,
        "disable_log_stats": True,  # the load watch is the only listener
        "seed": 0,
    }


def _make_room_for_drafts(arguments: dict[str, Any], max_draft_tokens: int) -> None:
    """A step must be able to verify the drafts of all running requests."""
    most = arguments["max_num_seqs"] * (1 + max_draft_tokens)
    arguments["max_num_batched_tokens"] = max(arguments["max_num_batched_tokens"], most)
    arguments["per_request_spec_decode_metrics"] = "detailed"


def _add(arguments: dict[str, Any], more: dict[str, Any]) -> None:
    """Add arguments; `additional_config`, where each part of Seer has a key, is united."""
    config = {**arguments.get("additional_config", {}), **more.get("additional_config", {})}
    arguments.update(more)
    if config:
        arguments["additional_config"] = config
