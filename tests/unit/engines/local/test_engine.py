"""The local engine on a tiny model: the conformance suite, weights, stop strings, bad models."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from seer.engines.local.spec import LocalSpec
from seer.engines.serving.stopping import StopCheck
from seer.errors import InvalidInput
from seer.rollout.engine import InstanceSetup
from seer.types import SamplingParams, WeightUpdate
from support.conformance import CHECKS, Check, run_check
from support.subjects import Subject, ignore, running
from support.tiny_models import TINY_MODELS, make_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama."""
    path = tmp_path_factory.mktemp("tiny")
    make_tiny_model("llama", path)
    return path


def _subject(path: Path, dtype: str = "float32", drafting: str = "off") -> Subject:
    spec = LocalSpec(model=str(path), dtype=dtype, kv_tokens=16 * 32)
    return Subject(spec=spec, weights_path=str(path), drafting=drafting)


@pytest.mark.parametrize("drafting", ["off", "fixed:4", "seer"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, drafting: str, model: Path) -> None:
    """The local engine keeps the contract of engines, with drafts as without."""
    run_check(check, _subject(model, drafting=drafting))


@pytest.mark.parametrize("name", TINY_MODELS[1:])
def test_every_family_divides_without_a_trace(name: str, tmp_path: Path) -> None:
    """Chunks give the whole response's tokens for the other families too."""
    make_tiny_model(name, tmp_path)
    check = next(c for c in CHECKS if c.__name__ == "check_chunked_equals_whole")
    run_check(check, _subject(tmp_path))


def test_new_weights_change_the_text_and_leave_no_old_kv(model: Path, tmp_path: Path) -> None:
    """After an update the engine generates what a fresh engine with those weights does."""
    other = tmp_path / "other"
    shutil.copytree(model, other)
    weights = load_file(other / "model.safetensors")
    save_file(
        {n: t + 0.05 * torch.randn_like(t) for n, t in weights.items()},
        other / "model.safetensors",
        metadata={"format": "pt"},
    )
    subject = _subject(model)

    async def check() -> None:
        async with running(subject) as [engine], running(_subject(other)) as [fresh]:
            before = await engine.run(subject.chunk(0, max_tokens=40), ignore)
            await engine.update_weights(WeightUpdate(version=1, path=str(other)))
            chunk = subject.chunk(0, max_tokens=40, weight_version=1, keep_kv=False)
            after = await engine.run(chunk, ignore)
            expected = await fresh.run(subject.chunk(0, max_tokens=40), ignore)
            assert after.token_ids == expected.token_ids != before.token_ids
            assert after.stats.num_prompt_prefilled > 0

    asyncio.run(check())


def test_weights_that_do_not_fit_leave_the_old_ones(model: Path, tmp_path: Path) -> None:
    """An update with foreign weights raises InvalidInput; the engine goes on as it was."""
    make_tiny_model("qwen3", tmp_path)
    subject = _subject(model)

    async def check() -> None:
        async with running(subject) as [engine]:
            before = await engine.run(subject.chunk(0, max_tokens=8, keep_kv=False), ignore)
            with pytest.raises(InvalidInput, match="config says"):
                await engine.update_weights(WeightUpdate(version=1, path=str(tmp_path)))
            after = await engine.run(subject.chunk(0, max_tokens=8, keep_kv=False), ignore)
            assert after.token_ids == before.token_ids

    asyncio.run(check())


def test_a_stop_string_ends_with_the_token_that_completes_it() -> None:
    """Only the response is searched, over token borders, and the completing token is kept."""
    letters = {1: "a", 2: "b", 3: "c"}

    def decode(token_ids: list[int]) -> str:
        return "".join(letters[token] for token in token_ids)

    check = StopCheck(SamplingParams(stop=("bc",)), eos_token_ids=(), decode=decode)
    tokens = [2, 3]  # the prompt spells the string: no matter
    ends = []
    for token in (1, 2, 1, 2, 3):
        tokens.append(token)
        ends.append(check.stops(tokens, num_prompt=2))
    assert ends == [False, False, False, False, True]


def test_end_tokens_stop_unless_ignored() -> None:
    """The model's end token stops; with ignore_eos only the user's stop tokens do."""
    plain = StopCheck(SamplingParams(), eos_token_ids=(7,), decode=str)
    ignoring = StopCheck(
        SamplingParams(ignore_eos=True, stop_token_ids=(9,)), eos_token_ids=(7,), decode=str
    )
    assert plain.stops([1, 7], 1)
    assert not ignoring.stops([1, 7], 1)
    assert ignoring.stops([1, 9], 1)


BAD_CONFIGS = {
    "its model_type is 'gpt2'": {"model_type": "gpt2"},
    "rope type 'dynamic'": {"rope_parameters": {"rope_type": "dynamic"}},
    "sliding-window": {"use_sliding_window": True},
    "must divide": {"num_key_value_heads": 3},
    "lacks or spoils": {"num_hidden_layers": None},
    "multiples of 16": {"hidden_size": 60, "head_dim": 15},
}


@pytest.mark.parametrize("message", BAD_CONFIGS)
def test_an_unsupported_model_is_refused_before_loading(
    message: str, model: Path, tmp_path: Path
) -> None:
    """`describe` names what the configuration has and what is allowed."""
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | BAD_CONFIGS[message]))
    with pytest.raises(InvalidInput, match=message):
        LocalSpec(model=str(tmp_path)).describe()


def test_missing_pieces_of_a_model_are_named(tmp_path: Path, model: Path) -> None:
    """No directory, no config.json, broken JSON, no weights: each says so."""
    with pytest.raises(InvalidInput, match="a directory in Hugging Face format"):
        LocalSpec(model=str(tmp_path / "nowhere")).describe()
    with pytest.raises(InvalidInput, match=r"holds a config\.json"):
        LocalSpec(model=str(tmp_path)).describe()
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InvalidInput, match="not JSON"):
        LocalSpec(model=str(tmp_path)).describe()
    shutil.copy(model / "config.json", tmp_path)
    with pytest.raises(InvalidInput, match="safetensors"):
        LocalSpec(model=str(tmp_path)).describe()


def test_a_missing_tensor_fails_the_launch(model: Path, tmp_path: Path) -> None:
    """Weights without a tensor raise InvalidInput naming it, and no thread stays behind."""
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})

    async def launch() -> None:
        await LocalSpec(model=str(tmp_path)).launch(InstanceSetup(instance_id=0))

    with pytest.raises(InvalidInput, match=r"model\.norm\.weight"):
        asyncio.run(launch())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dtype", "float16"),
        ("device", "tpu"),
        ("kv_tokens", 31),
        ("logprobs", "none"),
        ("max_running_requests", 0),
        ("prefill_tokens_per_step", 0),
    ],
)
def test_bad_settings_name_field_and_allowed(field: str, value: object) -> None:
    """Each bad setting raises InvalidInput that names the field."""
    with pytest.raises(InvalidInput, match=f"{field}: got .*; allowed"):
        LocalSpec(**{"model": "somewhere", field: value})  # type: ignore[arg-type]
