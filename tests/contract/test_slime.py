"""Seer as slime's rollout function, over SGLang's HTTP interface, end to end.

Samples, data source and servers are stand-ins written from slime 0.3.1 (commit 624b824a); where
slime is importable its own code is used, and the stand-ins are compared with it.
"""

import dataclasses
import importlib.util
import inspect
import math
from argparse import Namespace
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from slime.rollout.base_types import RolloutFnTrainOutput
from slime.rollout.sglang_rollout import generate_rollout as slimes_own
from slime.utils import http_utils
from slime.utils.types import Sample

from contract.sglang_server import Router, cluster
from seer.errors import EngineFailure, InvalidInput
from seer.trainers.slime import rollout
from seer.trainers.slime.arguments import seer_settings
from seer.trainers.slime.rollout import generate
from support.scripted_lm import CharTokenizer, ScriptedLM, check_response

GROUP_SIZE = 4
LIMIT = 40
CHUNK = 8
TOKENS = CharTokenizer()


async def share_of_es(args: Namespace, sample: Any) -> float:
    """A reward: the letters e."""
    del args
    return sample.response.count("e") / LIMIT


async def not_a_number(args: Namespace, sample: Any) -> float:
    del args
    return math.nan if sample.index == 2 else 0.0


async def of_the_group(args: Namespace, samples: list[Any]) -> list[float]:
    del args
    return [float(place) for place, _ in enumerate(samples)]


def only_even_groups(args: Namespace, samples: list[Any]) -> Any:
    """A dynamic filter."""
    del args
    from slime.rollout.filter_hub.base_types import DynamicFilterOutput  # noqa: PLC0415

    is_even = samples[0].group_index % 2 == 0
    return DynamicFilterOutput(keep=is_even, reason=None if is_even else "odd")


class DataSource:
    """slime's: groups of samples, numbered on and on."""

    def __init__(self, group_size: int = GROUP_SIZE) -> None:
        self.group_size = group_size
        self.num_groups = 0

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        groups = []
        for _ in range(num_samples):
            number = self.num_groups
            self.num_groups += 1
            sample = Sample(group_index=number, prompt=f"Question {number}: what is it?")
            group = [deepcopy(sample) for _ in range(self.group_size)]
            for member, each in enumerate(group):
                each.index = number * self.group_size + member
            groups.append(group)
        return groups


def reward(name: str) -> str:
    return f"{__name__}.{name}"


@pytest.fixture
def lm() -> ScriptedLM:
    prompts = (f"Question {number}: what is it?" for number in range(64))
    return ScriptedLM(prompts={tuple(TOKENS.encode(prompt)) for prompt in prompts})


@pytest.fixture
def router(lm: ScriptedLM, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Router, Namespace]]:
    monkeypatch.setattr(rollout, "load_tokenizer", lambda *_, **__: TOKENS)
    with cluster(lm) as (router, ip, port):
        args = Namespace(
            hf_checkpoint="scripted",
            sglang_router_ip=ip,
            sglang_router_port=port,
            sglang_server_concurrency=16,
            rollout_batch_size=6,
            over_sampling_batch_size=6,
            n_samples_per_prompt=GROUP_SIZE,
            rollout_temperature=1.0,
            rollout_top_p=1.0,
            rollout_top_k=-1,
            rollout_max_response_len=LIMIT,
            rollout_max_prompt_len=64,
            rollout_max_context_len=None,
            rollout_stop=None,
            rollout_stop_token_ids=None,
            rollout_skip_special_tokens=False,
            partial_rollout=False,
            custom_generate_function_path=None,
            dynamic_sampling_filter_path=None,
            rollout_sample_filter_path=None,
            group_rm=False,
            reward_key=None,
            custom_rm_path=reward("share_of_es"),
            seer_chunk_size=CHUNK,
            rollout_num_engines=2,
            use_distributed_post=False,
        )
        http_utils.init_http_client(args)
        yield router, args


def test_signature_is_slimes() -> None:
    """Names, kinds and defaults of the parameters, which slime's own contract test compares."""
    ours, theirs = (inspect.signature(each).parameters for each in (generate, slimes_own))
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]


def test_a_rollout_over_two_servers(lm: ScriptedLM, router: tuple[Router, Namespace]) -> None:
    """Every sample has its own response, divided into calls that both servers got."""
    _, args = router
    output = generate(args, 0, DataSource())
    assert isinstance(output, RolloutFnTrainOutput)
    assert [[sample.index for sample in group] for group in output.samples] == [
        [number * GROUP_SIZE + member for member in range(GROUP_SIZE)] for number in range(6)
    ]
    for sample in (sample for group in output.samples for sample in group):
        prompt = TOKENS.encode(sample.prompt)
        response = sample.tokens[len(prompt) :]
        assert sample.tokens[: len(prompt)] == prompt
        assert sample.response == TOKENS.decode(response)
        assert len(response) == sample.response_length == len(sample.loss_mask)
        assert set(sample.loss_mask) == {1}
        is_over = check_response(prompt, response, sample.rollout_log_probs, LIMIT)
        status = Sample.Status.COMPLETED if is_over else Sample.Status.TRUNCATED
        assert sample.status is status
        assert sample.reward == sample.response.count("e") / LIMIT
        assert sample.weight_versions == ["3"]
    firsts = {tuple(sample.tokens) for sample in output.samples[0]}
    assert len(firsts) == GROUP_SIZE
    assert {call.engine for call in lm.calls} == {0, 1}
    assert max(call.max_tokens for call in lm.calls) <= CHUNK
    assert output.metrics["rollout/seer/chunks"] == len(lm.calls)


def test_admission_by_the_servers_own_kv(lm: ScriptedLM, router: tuple[Router, Namespace]) -> None:
    """A server never runs more than it says it can hold."""
    behind, args = router
    for server in behind.servers:
        server.kv_tokens = 256
    generate(args, 0, DataSource())
    assert max(call.kv_tokens for call in lm.calls) <= 256


def test_a_lost_server(lm: ScriptedLM, router: tuple[Router, Namespace]) -> None:
    """Its requests go on elsewhere from their last chunk."""
    behind, args = router
    args.rollout_batch_size = args.over_sampling_batch_size = 4
    behind.servers[0].kill()
    output = generate(args, 0, DataSource())
    assert {call.engine for call in lm.calls} == {behind.servers[1].number}
    assert output.metrics["rollout/seer/instances_lost"] > 0
    assert all(sample.response_length for group in output.samples for sample in group)


def test_dynamic_filter(lm: ScriptedLM, router: tuple[Router, Namespace]) -> None:
    """Groups that slime's filter drops are replaced; reasons are counted as slime counts them."""
    del lm
    _, args = router
    args.rollout_batch_size, args.over_sampling_batch_size = 3, 4
    args.dynamic_sampling_filter_path = reward("only_even_groups")
    data_source = DataSource()
    output = generate(args, 0, data_source)
    assert len(output.samples) == 3
    assert all(group[0].group_index % 2 == 0 for group in output.samples)
    assert output.metrics["rollout/dynamic_filter/drop_odd"] >= 2
    assert data_source.num_groups == 8


def test_rewards_of_a_group(router: tuple[Router, Namespace]) -> None:
    """With `--group-rm` the function gets the group."""
    _, args = router
    args.group_rm, args.custom_rm_path = True, reward("of_the_group")
    output = generate(args, 0, DataSource())
    assert [sample.reward for sample in output.samples[0]] == [0.0, 1.0, 2.0, 3.0]


def test_evaluation_is_slimes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is handed over as it is."""
    asked: list[tuple[Any, ...]] = []

    def noted(args: Any, rollout_id: int, data_source: Any, *, evaluation: bool) -> str:
        asked.append((args, rollout_id, data_source, evaluation))
        return "evaluated"

    monkeypatch.setattr(rollout.sglang_rollout, "generate_rollout", noted)
    args, data_source = Namespace(), DataSource()
    assert generate(args, 7, data_source, evaluation=True) == "evaluated"
    assert asked == [(args, 7, data_source, True)]


def test_weights_that_change_in_a_rollout(router: tuple[Router, Namespace]) -> None:
    """Answers from two versions end the rollout."""
    behind, args = router
    behind.servers[1].weight_version = "4"
    with pytest.raises(EngineFailure, match="weights changed during the rollout"):
        generate(args, 0, DataSource())


def test_a_server_that_refuses(router: tuple[Router, Namespace]) -> None:
    """An error status is no lost server: it ends the rollout with its words."""
    behind, args = router
    for server in behind.servers:
        server.error = 400
    with pytest.raises(EngineFailure, match="400"):
        generate(args, 0, DataSource())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("partial_rollout", True, "partial_rollout: got True; allowed: off"),
        ("custom_generate_function_path", "a.b", "custom_generate_function_path"),
        ("rollout_top_p", 0.9, "rollout_top_p: got 0.9; allowed: 1.0"),
        ("rollout_max_context_len", 32, "max_tokens"),
        ("over_sampling_batch_size", 5, "over_sampling_batch_size: got 5; allowed: at least"),
        ("seer_chunk", 8, "seer_chunk: got 8; allowed: seer_chunk_size"),
        ("seer_chunk_size", 0, "chunk_size: got 0"),
        ("seer_policy", "best", "policy"),
        ("n_samples_per_prompt", 3, "a group of 4.*n_samples_per_prompt"),
        ("custom_rm_path", reward("not_a_number"), "reward: got 'nan for sample 2'"),
    ],
)
def test_refused(router: tuple[Router, Namespace], name: str, value: object, message: str) -> None:
    """What Seer cannot serve is named, with what is allowed."""
    _, args = router
    setattr(args, name, value)
    with pytest.raises(InvalidInput, match=message):
        generate(args, 0, DataSource())


def test_samples_that_are_no_group(router: tuple[Router, Namespace]) -> None:
    """Another prompt within a group, a sample that is done, images, servers of two kinds."""
    behind, args = router

    def spoiled(field: str, value: object) -> DataSource:
        source = DataSource()
        fresh = source.get_samples

        def get_samples(count: int) -> list[list[Any]]:
            groups = fresh(count)
            setattr(groups[1][2], field, value)
            return groups

        source.get_samples = get_samples  # type: ignore[method-assign]
        return source

    for field, value in (
        ("prompt", "Something else"),
        ("status", Sample.Status.COMPLETED),
        ("multimodal_inputs", {"images": ["one"]}),
    ):
        with pytest.raises(InvalidInput, match="sample 6"):
            generate(args, 0, spoiled(field, value))
    behind.worker_type = "prefill"
    with pytest.raises(InvalidInput, match="workers"):
        generate(args, 0, DataSource())


def test_settings_from_arguments() -> None:
    """Slime's concurrency limits an engine unless Seer is told otherwise."""
    assert seer_settings(Namespace(sglang_server_concurrency=7)).max_running == 7
    given = Namespace(sglang_server_concurrency=7, seer_max_running=9, seer_kv_tokens=4096)
    assert (seer_settings(given).max_running, seer_settings(given).kv_tokens) == (9, 4096)


def test_the_stand_in_agrees_with_slime() -> None:
    """Where slime is installed: every field that is relied on is one of its own."""
    path = Path(__file__).parent / "standins" / "slime" / "utils" / "types.py"
    spec = importlib.util.spec_from_file_location("standin_types", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    theirs = {field.name: field for field in dataclasses.fields(Sample)}
    for field in dataclasses.fields(module.Sample):
        assert field.name in theirs
    assert {each.name: each.value for each in module.Sample.Status} == {
        each.name: each.value for each in Sample.Status
    }
