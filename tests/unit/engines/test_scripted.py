"""The scripted engine, and through it the step loop that it shares with the local engine."""

import asyncio
from pathlib import Path

import pytest

from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import scripted_output
from seer.errors import EngineFailure, InvalidInput
from seer.rollout.engine import InstanceSetup
from seer.types import ChunkEnd, SamplingParams
from support.conformance import CHECKS, Check, run_check
from support.subjects import Subject, ignore, running

SPEC = ScriptedSpec(num_blocks=16, max_length=200, step_time_s=0.0005)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return Subject(spec=SPEC, weights_path=str(tmp_path))


@pytest.mark.parametrize("drafting", ["off", "fixed:4", "seer"])
@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: Check, drafting: str, tmp_path: Path) -> None:
    """The engine keeps the contract of engines, with drafts as without."""
    run_check(check, Subject(spec=SPEC, weights_path=str(tmp_path), drafting=drafting))


def test_texts_can_be_foretold(subject: Subject) -> None:
    """A response is what `scripted_output` says, ended by the end token."""

    async def check() -> None:
        async with running(subject) as [engine]:
            sampling = SamplingParams(seed=5)
            chunk = subject.chunk(2, max_tokens=200, sampling=sampling)
            chunk_result = await engine.run(chunk, ignore)
            assert chunk_result.token_ids == scripted_output(SPEC.shape, 5, 8, 2)
            assert chunk_result.end is ChunkEnd.STOP

    asyncio.run(check())


def test_stop_string(subject: Subject) -> None:
    """A stop string ends a response; the token that completes it is kept."""
    output = scripted_output(SPEC.shape, 5, 8, 2)
    tokenizer = SPEC.tokenizer()
    stop = tokenizer.decode(output[4:7])

    async def check() -> None:
        async with running(subject) as [engine]:
            sampling = SamplingParams(seed=5, stop=(stop,))
            result = await engine.run(subject.chunk(2, max_tokens=200, sampling=sampling), ignore)
            assert result.token_ids == output[:7]
            assert result.end is ChunkEnd.STOP

    asyncio.run(check())


def test_tokenizer_round_trip() -> None:
    """Printable text survives; chats end with the assistant's turn."""
    tokenizer = SPEC.tokenizer()
    text = "".join(map(chr, range(32, 127)))
    assert tokenizer.decode(tokenizer.encode(text)) == text
    chat = tokenizer.encode_chat([{"role": "user", "content": "Hi"}])
    assert tokenizer.decode(chat) == "user: Hi assistant:"


def test_launch_failure() -> None:
    """A launch fails when the spec says so."""
    spec = ScriptedSpec(launch_failure="no luck today")
    with pytest.raises(EngineFailure, match="no luck today"):
        asyncio.run(spec.launch(InstanceSetup(instance_id=0)))


@pytest.mark.parametrize(
    "settings",
    [
        {"block_size": 0},
        {"vocab_size": 1},
        {"kv_bytes_per_token": 12},
        {"min_length": 9, "max_length": 8},
        {"step_time_s": float("nan")},
    ],
)
def test_bad_settings(settings: dict[str, float | str]) -> None:
    """Impossible sizes are refused by name."""
    with pytest.raises(InvalidInput, match=list(settings)[-1]):
        ScriptedSpec(**settings)
