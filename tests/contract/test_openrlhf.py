"""Seer as OpenRLHF's agent executor, over an engine actor of its shape, end to end.

Executors, actor and vLLM's classes are stand-ins written from OpenRLHF 0.11.2 (commit 3c3be62);
where OpenRLHF is importable its own executors are used.
"""

import asyncio
import inspect
import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from openrlhf.utils.agent import AgentExecutorBase, SingleTurnAgentExecutor

from seer.errors import EngineFailure, InvalidInput
from seer.trainers.openrlhf.executor import seer_executor
from support.scripted_lm import CharTokenizer, ScriptedLM, check_response

GROUP_SIZE = 4
LIMIT = 40
MAX_LENGTH = 96
CHUNK = 8
TOKENS = CharTokenizer()
PROMPTS = [f"Question {number}: what is it?" for number in range(5)]


@dataclass
class Params:
    """vLLM's SamplingParams, as OpenRLHF makes it."""

    max_tokens: int | None = LIMIT
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    min_tokens: int = 1
    logprobs: int | None = 1
    stop: Any = None
    stop_token_ids: Any = None
    ignore_eos: bool = False
    skip_special_tokens: bool = False
    n: int = 1
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0


@dataclass
class Actor:
    """OpenRLHF's RolloutRayActor over a scripted model, without Ray."""

    executor: Any
    lm: ScriptedLM = field(
        default_factory=lambda: ScriptedLM(
            prompts={tuple(TOKENS.encode(prompt)) for prompt in PROMPTS}
        )
    )
    num_gpu_blocks: int | None = None
    fails: bool = False

    @property
    def llm(self) -> Any:
        cache = SimpleNamespace(num_gpu_blocks=self.num_gpu_blocks, block_size=16)
        return SimpleNamespace(vllm_config=SimpleNamespace(cache_config=cache))

    async def generate(
        self, prompt_token_ids: list[int], sampling_params: Params, multi_modal_data: Any = None
    ) -> Any:
        assert multi_modal_data is None
        if self.fails:
            raise RuntimeError("out of memory")
        limit = sampling_params.max_tokens
        assert limit is not None
        assert sampling_params.logprobs is not None
        number = self.lm.begin(0, prompt_token_ids, limit, min_tokens=sampling_params.min_tokens)
        tokens, values, finish = self.lm.generate(prompt_token_ids, limit)
        for _ in tokens:
            await asyncio.sleep(0)
        self.lm.end(0, number)
        logprobs = [
            {token: SimpleNamespace(logprob=value)}
            for token, value in zip(tokens, values, strict=True)
        ]
        output = SimpleNamespace(token_ids=tokens, text="", logprobs=logprobs, finish_reason=finish)
        return SimpleNamespace(outputs=[output], num_cached_tokens=0)

    async def generate_responses(self, prompt: str, params: Params) -> list[dict[str, Any]]:
        """OpenRLHF's method of that name, for one prompt."""
        tasks = [
            self.executor.execute(
                prompt=prompt,
                label="e",
                sampling_params=params,
                max_length=MAX_LENGTH,
                hf_tokenizer=TOKENS,
                llm_engine=self,
                images=None,
            )
            for _ in range(GROUP_SIZE)
        ]
        return await asyncio.gather(*tasks)

    async def rollout(self, params: Params) -> list[list[dict[str, Any]]]:
        """All prompts at once, as OpenRLHF dispatches them."""
        calls = [self.generate_responses(prompt, params) for prompt in PROMPTS]
        return await asyncio.gather(*calls)


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict[str, Any]:
    """Letters e in the response."""
    responses = [query[len(p) :] for query, p in zip(queries, prompts, strict=True)]
    (count,) = [text.count(label) for text, label in zip(responses, labels, strict=True)]
    return {"rewards": float(count)}


def single_turns(reward: Any) -> SingleTurnAgentExecutor:
    """OpenRLHF's own executor, as it is after it has loaded a reward file."""
    executor = SingleTurnAgentExecutor()
    executor.reward_endpoints, executor.reward_func = ["reward.py"], reward
    return executor


def make(reward: Any = reward_func, **settings: Any) -> Any:
    cls = seer_executor(lambda: single_turns(reward), chunk_size=CHUNK, **settings)
    assert issubclass(cls, AgentExecutorBase)
    return cls()


def test_signature_is_openrlhfs() -> None:
    """`execute` takes what OpenRLHF gives it."""
    ours = inspect.signature(seer_executor(lambda: None).execute).parameters
    theirs = inspect.signature(AgentExecutorBase.execute).parameters
    assert [(p.name, p.default) for p in ours.values()] == [
        (p.name, p.default) for p in theirs.values()
    ]


def test_two_rollouts_on_one_actor() -> None:
    """Each sample is one response in chunks, with its reward; between rollouts nothing is left."""
    actor = Actor(make())

    async def twice() -> list[list[dict[str, Any]]]:
        first = await actor.rollout(Params())
        await asyncio.sleep(0.01)  # weights are updated here
        return first + await actor.rollout(Params())

    groups = asyncio.run(twice())
    assert [group[0]["prompt"] for group in groups] == PROMPTS * 2
    for sample in (sample for group in groups for sample in group):
        prompt = TOKENS.encode(sample["prompt"])
        tokens, logprobs = sample["observation_tokens"], sample["rollout_log_probs"]
        ((begin, end),) = sample["action_ranges"]
        assert (begin, end) == (len(prompt), len(tokens))
        assert tokens[:begin] == prompt
        assert logprobs[:begin] == [0.0] * begin
        is_over = check_response(prompt, tokens[begin:], logprobs[begin:], LIMIT)
        assert sample["truncated"] is not is_over
        assert sample["reward"] == TOKENS.decode(tokens[begin:]).count("e")
    assert len({tuple(sample["observation_tokens"]) for sample in groups[0]}) == GROUP_SIZE
    assert max(call.max_tokens for call in actor.lm.calls) <= CHUNK


def test_the_end_token_is_barred_at_the_start_only() -> None:
    """VLLM's min_tokens counts what a call generates; OpenRLHF sets 1, for the response."""
    actor = Actor(make())
    asyncio.run(actor.rollout(Params(min_tokens=10)))
    lengths = {len(TOKENS.encode(prompt)) for prompt in PROMPTS}
    assert lengths == {len(TOKENS.encode(PROMPTS[0]))}
    done = {call.num_context - min(lengths): call.min_tokens for call in actor.lm.calls}
    assert done[0] == CHUNK
    assert done[8] == 2
    assert {left for generated, left in done.items() if generated >= 10} == {0}


def test_members_of_a_prompt_are_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executors of one prompt, started together, are scheduled as a group."""
    from seer.trainers.borrowed.group_gate import GroupGate  # noqa: PLC0415

    gates: list[GroupGate] = []
    make_gate = GroupGate.__init__

    def noted(gate: GroupGate, rollout: Any) -> None:
        make_gate(gate, rollout)
        gates.append(gate)

    monkeypatch.setattr(GroupGate, "__init__", noted)
    actor = Actor(make())
    asyncio.run(actor.rollout(Params()))
    assert [gate.group_sizes for gate in gates] == [[GROUP_SIZE] * len(PROMPTS)]


def test_admission_by_vllms_own_kv() -> None:
    """The engine never runs more than vLLM says it can hold."""
    actor = Actor(make(), num_gpu_blocks=16)
    asyncio.run(actor.rollout(Params()))
    assert max(call.kv_tokens for call in actor.lm.calls) <= 256


def test_no_logprobs_unless_asked() -> None:
    """Without importance correction OpenRLHF asks for none; the limit may be left to the length."""
    actor = Actor(make())
    groups = asyncio.run(actor.rollout(Params(logprobs=None, max_tokens=None)))
    assert all(sample["rollout_log_probs"] is None for group in groups for sample in group)
    assert max(len(sample["observation_tokens"]) for sample in groups[0]) <= MAX_LENGTH


def test_an_engine_that_fails() -> None:
    """Its words end the rollout."""
    with pytest.raises(EngineFailure, match="out of memory"):
        asyncio.run(Actor(make(), fails=True).rollout(Params()))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (Params(n=2), "n: got 2; allowed: 1"),
        (Params(seed=3), "seed: got 3; allowed: none"),
        (Params(presence_penalty=0.5), "presence_penalty"),
        (Params(max_tokens=MAX_LENGTH), "max_tokens"),
    ],
)
def test_refused(params: Params, message: str) -> None:
    """Sampling that cannot be divided, and a response that the context does not hold."""
    with pytest.raises(InvalidInput, match=message):
        asyncio.run(Actor(make()).rollout(params))


def test_refused_settings_images_and_rewards() -> None:
    """Each by its name."""
    with pytest.raises(InvalidInput, match="chunk_size: got 0"):
        seer_executor(lambda: None, chunk_size=0)
    executor = make()
    with pytest.raises(InvalidInput, match="images"):
        asyncio.run(executor.execute("p", "l", Params(), 9, TOKENS, Actor(executor), images=[1]))
    broken = make(lambda *_: {"rewards": math.nan})
    with pytest.raises(InvalidInput, match=r"reward: got .nan for a response to .Question"):
        asyncio.run(Actor(broken).rollout(Params()))
