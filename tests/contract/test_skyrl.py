"""Seer in SkyRL's experiment, over two servers of its client's shape, end to end.

Settings, generator and client are stand-ins written from SkyRL 0.3.0 (commit a956457); where SkyRL
is installed, what is subclassed and copied of it is compared with them instead.
"""

import asyncio
import dataclasses
import importlib
import inspect
import math
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from skyrl.backends.skyrl_train.inference_servers import remote_inference_client as remote
from skyrl.train.generators.base import GeneratorInterface, TrajectoryID

from seer.errors import EngineFailure, InvalidInput
from seer.trainers.borrowed.group_gate import GroupGate
from seer.trainers.skyrl.experiment import SeerExp, SeerGenerator, SeerTrainConfig
from support.scripted_lm import CharTokenizer, ScriptedLM, check_response

REPETITIONS = 4
LIMIT = 40
CHUNK = 8
URLS = ["http://one", "http://two"]
TOKENS = CharTokenizer()
PROMPTS = [f"Question {number}: what is it?" for number in range(4)]
PARAMS = {
    "min_tokens": 1,
    "skip_special_tokens": True,
    "include_stop_str_in_output": True,
    "max_tokens": LIMIT,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "logprobs": 1,
    "stop": None,
}
"""As SkyRL hands them over for vLLM."""


@pytest.fixture
def lm() -> Iterator[ScriptedLM]:
    lm = ScriptedLM(prompts={tuple(TOKENS.encode(prompt)) for prompt in PROMPTS})
    remote.SERVERS.update({url: (lm, number) for number, url in enumerate(URLS)})
    yield lm
    remote.SERVERS.clear()


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> list[GroupGate]:
    """Every gate that is made."""
    made: list[GroupGate] = []
    make_gate = GroupGate.__init__

    def noted(gate: GroupGate, rollout: Any) -> None:
        make_gate(gate, rollout)
        made.append(gate)

    monkeypatch.setattr(GroupGate, "__init__", noted)
    return made


def make(*args: str) -> tuple[SeerGenerator, Any]:
    """Generator and client, as SkyRL's experiment makes them."""
    cfg = SeerTrainConfig.from_cli_overrides([f"seer.chunk_size={CHUNK}", *args])
    client = remote.RemoteInferenceClient("http://router", list(URLS), 1, tokenizer=TOKENS)
    exp = SeerExp(cfg)
    return exp.get_generator(cfg, exp.tokenizer, client), client


def batch(**extra: Any) -> Any:
    """SkyRL's input: each prompt REPETITIONS times."""
    rows = [(prompt, number) for prompt in PROMPTS for number in range(REPETITIONS)]
    return {
        "prompts": [[{"role": "user", "content": prompt}] for prompt, _ in rows],
        "env_classes": ["env"] * len(rows),
        "env_extras": [dict(extra) for _ in rows],
        "sampling_params": PARAMS,
        "trajectory_ids": [TrajectoryID(prompt[9], number) for prompt, number in rows],
        "batch_metadata": None,
    }


def check_row(output: Any, row: int) -> None:
    """A row is its prompt's: runs of the model's own tokens, each a response."""
    prompt = output["prompt_token_ids"][row]
    assert prompt == TOKENS.encode(PROMPTS[row // REPETITIONS])
    tokens, mask = output["response_ids"][row], output["loss_masks"][row]
    values = output["rollout_logprobs"][row]
    assert len(tokens) == len(mask) == len(values)
    begin = 0
    while begin < len(tokens):
        end = begin + [*mask[begin:], 0].index(0)
        check_response(prompt + tokens[:begin], tokens[begin:end], values[begin:end], LIMIT)
        begin = end + [*mask[end:], 1].index(1)


@pytest.mark.parametrize("batched", [0, 1])
def test_single_turns(lm: ScriptedLM, gates: list[GroupGate], batched: int) -> None:
    """Rows in order, groups whole, chunks on both servers past the router, Seer's figures."""
    generator, client = make(f"generator.batched={batched}")
    output = asyncio.run(generator.generate(batch()))
    for row in range(len(PROMPTS) * REPETITIONS):
        check_row(output, row)
    assert [gate.group_sizes for gate in gates] == [[REPETITIONS] * len(PROMPTS)]
    assert {call.engine for call in lm.calls} == {0, 1}
    assert max(call.max_tokens for call in lm.calls) <= CHUNK
    assert output["rollout_metrics"]["generate/rows"] == 16
    assert output["rollout_metrics"]["seer/chunks"] == len(lm.calls)
    assert len(client.finished) == (0 if batched else 16)
    longest = len(TOKENS.encode(PROMPTS[0]))
    assert {c.min_tokens for c in lm.calls if c.num_context > longest} == {0}


def test_several_turns(lm: ScriptedLM, gates: list[GroupGate]) -> None:
    """First turns are groups; later ones, each with a past of its own, are single requests."""
    lm.prompts.clear()  # every context once: the model's draws are fixed
    generator, _ = make()
    lm.prompts.update(tuple(TOKENS.encode(prompt)) for prompt in PROMPTS)
    output = asyncio.run(generator.generate(batch(turns=2)))
    for row in range(len(PROMPTS) * REPETITIONS):
        check_row(output, row)
        assert 0 in output["loss_masks"][row]
    sizes = gates[0].group_sizes
    assert sizes[: len(PROMPTS)] == [REPETITIONS] * len(PROMPTS)
    assert sum(sizes) == 2 * len(PROMPTS) * REPETITIONS


def test_a_trajectory_that_never_asks(lm: ScriptedLM, gates: list[GroupGate]) -> None:
    """Its siblings do not wait for it."""
    del lm
    generator, _ = make()
    given = batch()
    given["env_extras"][5] = {"is_too_long": True}
    output = asyncio.run(generator.generate(given))
    assert output["stop_reasons"][5] == "length"
    assert sorted(gates[0].group_sizes) == [3, 4, 4, 4]


def test_admission_by_kv_tokens(lm: ScriptedLM) -> None:
    """`seer.kv_tokens` bounds what a server runs."""
    generator, _ = make("seer.kv_tokens=256")
    asyncio.run(generator.generate(batch()))
    assert max(call.kv_tokens for call in lm.calls) <= 256


def test_stop_string_over_two_chunks(lm: ScriptedLM) -> None:
    """A string that begins in one chunk and ends in the next one ends the response there."""
    generator, _ = make()
    whole = asyncio.run(generator.generate(batch()))
    texts = [TOKENS.decode(tokens) for tokens in whole["response_ids"]]
    # The scripted servers know no stop strings: one that straddles is for Seer to see.
    row = next(i for i, text in enumerate(texts) if len(text) > CHUNK + 2)
    stop = texts[row][CHUNK - 1 : CHUNK + 1]
    lm._draws = iter(range(whole["response_ids"][row][0] - 1, 10**6))
    given = batch()
    given["sampling_params"] = {**PARAMS, "stop": [stop]}
    for name in ("prompts", "env_classes", "env_extras", "trajectory_ids"):
        given[name] = given[name][row : row + 1]
    output = asyncio.run(generator.generate(given))
    assert output["response_ids"][0] == whole["response_ids"][row][: CHUNK + 1]
    assert output["stop_reasons"] == ["stop"]


def test_outside_a_batch_the_client_is_as_it_was(lm: ScriptedLM) -> None:
    """What SkyRL's trainer asks for itself goes to the router; everything else passes through."""
    remote.SERVERS["http://router"] = (lm, 9)
    generator, client = make()
    seer = generator._client
    asked = {"prompt_token_ids": [[1, 2]], "sampling_params": PARAMS}
    asyncio.run(seer.generate(asked))
    assert [call.engine for call in lm.calls] == [9]
    assert seer.model_name == client.model_name


def test_weights_that_change_in_a_batch(lm: ScriptedLM) -> None:
    """Two versions in one batch are an error; between batches they are what is meant to be."""
    del lm
    generator, client = make()
    asyncio.run(generator.generate(batch()))
    client.increment_weight_version()
    asyncio.run(generator.generate(batch()))
    inner = generator._inner.generate

    async def updated(given: Any) -> Any:
        client.increment_weight_version()
        return await inner(given)

    generator._inner.generate = updated
    with pytest.raises(EngineFailure, match="weights were updated"):
        asyncio.run(generator.generate(batch()))


def test_refused() -> None:
    """Keys, columns and rewards that Seer cannot serve, by name."""
    for key in (
        "generator.vision_language_generator",
        "generator.inference_engine.enable_pd",
        "generator.inference_engine.enable_return_routed_experts",
    ):
        with pytest.raises(InvalidInput, match=key):
            make(f"{key}=1")
    with pytest.raises(InvalidInput, match="max_running: got 0"):
        make("seer.max_running=0")
    with pytest.raises(ValueError, match=r"seer\.chunk"):
        make("seer.chunk=4")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("env_extras", [{}], "env_extras: got '1 rows'; allowed: 16"),
        ("trajectory_ids", [TrajectoryID("0", 0)] * 16, "one comes twice"),
        ("sampling_params", {**PARAMS, "n": 2}, "n: got 2"),
        ("sampling_params", {**PARAMS, "max_tokens": 200}, "max_tokens"),
        ("env_extras", [{"reward": math.nan}] * 16, "reward: got 'nan for trajectory 0'"),
    ],
)
def test_bad_batches(lm: ScriptedLM, column: str, value: object, message: str) -> None:
    """Before anything is generated, but for rewards."""
    generator, _ = make()
    with pytest.raises(InvalidInput, match=message):
        asyncio.run(generator.generate({**batch(), column: value}))
    assert not lm.calls or "reward" in message


def test_the_entrypoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """SkyRL's `main` imports the module and calls its `main`, with the command line as it is."""
    ray = ModuleType("ray")
    ray.remote = lambda **_: lambda f: SimpleNamespace(remote=f)  # type: ignore[attr-defined]
    ray.get = lambda result: result  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    name = "seer.trainers.skyrl.entrypoint"
    monkeypatch.delitem(sys.modules, name, raising=False)
    argv = ["main", f"trainer.override_entrypoint={name}", "seer.chunk_size=512"]
    monkeypatch.setattr(sys, "argv", argv)
    importlib.import_module(name).main()
    monkeypatch.delitem(sys.modules, name)
    assert [cfg.seer.chunk_size for cfg in SeerExp.ran] == [512]


def test_the_interface_is_skyrls() -> None:
    """Fields and signatures that are relied on."""
    names = {field.name for field in dataclasses.fields(remote.RemoteInferenceClient)}
    assert {"proxy_url", "server_urls", "model_name"} <= names
    ours = inspect.signature(SeerGenerator.generate).parameters
    assert list(ours) == list(inspect.signature(GeneratorInterface.generate).parameters)
