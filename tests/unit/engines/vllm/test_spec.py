"""The vLLM engine as configuration: sizes, arguments, environment, bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from seer.drafting.config import DraftingConfig
from seer.engines.vllm.arguments import engine_arguments
from seer.engines.vllm.environment import environment
from seer.engines.vllm.spec import VllmSpec
from seer.errors import InvalidInput
from seer.rollout.engine import InstanceSetup

SETUP = InstanceSetup(instance_id=1, cpus=(4, 6))
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "eos_token_id": 7,
}


def _model(directory: Path, **changes: object) -> str:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(CONFIG | changes))
    (directory / "model.safetensors").write_bytes(b"")
    return str(directory)


def _spec(directory: Path, **changes: Any) -> VllmSpec:
    fields = {"model": _model(directory), "dtype": "float32", "kv_tokens": 200} | changes
    return VllmSpec(**fields)


def test_describe(tmp_path: Path) -> None:
    """Whole blocks of KV; keys and values of 2 heads of 32 in 3 layers, 4 bytes each."""
    info = _spec(tmp_path).describe()
    assert (info.block_size, info.num_blocks) == (32, 6)
    assert info.block_bytes == 32 * 3 * 2 * 2 * 32 * 4


def test_latent_attention_and_nested_config(tmp_path: Path) -> None:
    """A latent is stored once; a text model inside another one is found."""
    text = CONFIG | {"kv_lora_rank": 60, "qk_rope_head_dim": 4}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": text}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    shape = VllmSpec(model=str(tmp_path)).shape()
    assert (shape.kv_elements_per_token, shape.eos_token_ids) == (3 * 64, (7,))


def test_arguments_hold_the_budget(tmp_path: Path) -> None:
    """The rollout's blocks, vLLM's own null block and one for a last token."""
    spec = _spec(tmp_path)
    arguments = engine_arguments(spec, SETUP)
    assert arguments["num_gpu_blocks_override"] == 6 + 2
    assert arguments["max_model_len"] == 6 * 32 + 1
    assert arguments["logprobs_mode"] == "processed_logprobs"
    assert arguments["enforce_eager"]
    assert "speculative_config" not in arguments
    assert "kv_transfer_config" not in arguments


def test_arguments_with_drafts(tmp_path: Path) -> None:
    """A step has room for the drafts of all running requests."""
    setup = InstanceSetup(instance_id=0, drafting=DraftingConfig(budget="fixed:4"))
    spec = _spec(tmp_path, max_running_requests=64, prefill_tokens_per_step=100)
    arguments = engine_arguments(spec, setup)
    assert arguments["speculative_config"]["num_speculative_tokens"] == 4
    assert arguments["max_num_batched_tokens"] == 64 * 5


def test_environment_on_cpus(tmp_path: Path) -> None:
    """Threads go where the rollout put the instance, and the user's log level stays."""
    variables = environment(_spec(tmp_path), SETUP, {"VLLM_LOGGING_LEVEL": "DEBUG"})
    assert variables["VLLM_CPU_OMP_THREADS_BIND"] == "4,6"
    assert variables["VLLM_LOGGING_LEVEL"] == "DEBUG"


@pytest.mark.parametrize(
    ("visible", "devices"), [(None, "2,3"), ("5,6,7,8", "7,8"), ("4,9", "4,9")]
)
def test_gpus_of_an_instance(visible: str | None, devices: str, tmp_path: Path) -> None:
    """The second instance of two GPUs gets the second pair, or what a placement left it."""
    spec = _spec(tmp_path, device="cuda", tensor_parallel=2)
    current = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert environment(spec, SETUP, current)["CUDA_VISIBLE_DEVICES"] == devices


def test_too_few_gpus(tmp_path: Path) -> None:
    """What is asked and what is there is said."""
    spec = _spec(tmp_path, device="cuda", tensor_parallel=2)
    with pytest.raises(InvalidInput, match="only 3 are visible"):
        environment(spec, SETUP, {"CUDA_VISIBLE_DEVICES": "0,1,2"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dtype", "int4"),
        ("device", "tpu"),
        ("kv_tokens", 31),
        ("block_size", 48),
        ("block_size", 0),
        ("max_running_requests", 0),
        ("tensor_parallel", 2),
    ],
)
def test_bad_values(field: str, value: object, tmp_path: Path) -> None:
    """A bad value is named before anything is read."""
    with pytest.raises(InvalidInput) as refused:
        _spec(tmp_path, **{field: value})
    assert refused.value.field == field


@pytest.mark.parametrize("missing", ["num_hidden_layers", "vocab_size", "max_position_embeddings"])
def test_model_without_a_size(missing: str, tmp_path: Path) -> None:
    """A configuration that lacks a size is refused, and the size named."""
    config = {name: value for name, value in CONFIG.items() if name != missing}
    spec = _spec(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidInput, match=missing):
        spec.describe()


def test_no_model(tmp_path: Path) -> None:
    """A directory without config.json, or without weights, is refused."""
    with pytest.raises(InvalidInput, match=r"config\.json"):
        VllmSpec(model=str(tmp_path / "none")).describe()
    _model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match="safetensors"):
        VllmSpec(model=str(tmp_path)).describe()
