"""Settings of a training run: one struct, from which TOML names, flags and help follow.

What is checked here needs neither a model nor a task. Sampling values are checked by
SamplingParams, scheduling values by RolloutConfig, task parameters by the tasks themselves.
"""

import math
from typing import Annotated, Any, Literal

import msgspec

from seer.drafting.config import OFF, DraftingConfig
from seer.errors import InvalidInput
from seer.scheduling.policies import ORACLE, make_policy
from seer.setting_fields import about, check_minimum
from seer.trainers.on_policy import OnPolicyCheck

BASELINE_POLICY = "group_round_robin"
"""Undivided groups dealt over the instances, as veRL does (paper section 5.1)."""


AnswerForm = Literal["whole", "tag", "last_number"]
SINKS = ("tensorboard", "wandb")


class TaskConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reasoning-gym task among those trained on."""

    name: str
    """A task of reasoning-gym, such as chain_sum."""
    weight: float = 1.0
    """Its share of the items, relative to the other tasks' weights."""
    params: dict[str, Any] = {}
    """Parameters of the task's generator; the task itself checks them."""
    answer: AnswerForm = "tag"
    """Where the answer is: the whole response, the last <answer> tag, or the last number."""
    suffix: str | None = None
    """Text after the question; None: one that asks for that form of the answer."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise InvalidInput("tasks.weight", self.weight, "allowed: a number > 0")
        fixed = sorted({"seed", "size"} & self.params.keys())
        if fixed:
            allowed = "allowed: parameters other than seed and size, which the run sets"
            raise InvalidInput("tasks.params", ", ".join(fixed), allowed)


MINIMUM = {
    "num_items": 1,
    "held_out_items": 0,
    "group_size": 2,
    "batch_size": 2,
    "micro_batch_size": 1,
    "steps": 1,
    "warmup_steps": 0,
    "instances": 1,
    "kv_tokens": 1,
    "max_running": 1,
    "chunk_size": 0,
    "max_spread": 0,
    "pull_gap_tokens": 0,
    "pool_bytes": 0,
    "reward_workers": 1,
    "eval_every": 0,
    "checkpoint_every": 1,
    "keep_checkpoints": 1,
    "sample_prompts": 0,
    "metrics_port": 1,
}
"""Least allowed values of whole numbers."""

SEEDS = 2**32
"""Seeds that numpy, whose generator is seeded too, takes."""
POSITIVE = ("learning_rate", "temperature", "reward_timeout_s")
FINITE = ("beta", "format_bonus", "reward_on_error", "eval_temperature")

MAY_DIFFER = frozenset(
    {
        *("steps", "out", "resume", "log", "sample_prompts"),
        *("metrics_port", "metrics_host"),
        *("eval_every", "checkpoint_every", "keep_checkpoints"),
        *("instances", "kv_tokens", "max_running", "pool_bytes", "reward_workers"),
        *("policy", "chunk_size", "max_spread", "pull_gap_tokens"),
        *("drafting", "warm_start", "baseline", "check_share", "allow_untried_vllm"),
    }
)
"""Settings that a resumed run may change: in float32 none of them changes what is learned."""


class TrainConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `seer train`. Raises InvalidInput on a bad or contradictory value."""

    tasks: Annotated[
        list[TaskConfig], about("reasoning-gym tasks: name, weight, params, answer, suffix")
    ]
    num_items: Annotated[int, about("training items, dealt over the tasks by weight")] = 1000
    held_out_items: Annotated[
        int, about("items for evaluation; no training item asks the same question")
    ] = 200
    model: Annotated[
        str | None,
        about("model directory in Hugging Face format (default: SmolLM2-135M-Instruct)"),
    ] = None
    dtype: Annotated[
        str, about("float32, or bfloat16 (the trainer's weights stay float32); also the rollout's")
    ] = "float32"
    device: Annotated[str, about("cpu or cuda")] = "cpu"
    engine: Annotated[
        Literal["local", "vllm"], about("what generates: local, or vllm where it is installed")
    ] = "local"
    allow_untried_vllm: Annotated[
        bool, about("go on with a vLLM release that Seer was not tried with")
    ] = False

    steps: Annotated[int, about("optimiser steps, each with a rollout of its own")] = 100
    group_size: Annotated[int, about("responses for each prompt")] = 8
    batch_size: Annotated[
        int, about("responses a step: prompts times group_size, so a multiple of it")
    ] = 32
    micro_batch_size: Annotated[
        int, about("responses in one forward and backward pass; divides batch_size")
    ] = 8
    learning_rate: Annotated[float, about("of AdamW, constant after the warm-up")] = 1e-5
    warmup_steps: Annotated[int, about("steps over which the learning rate rises from 0")] = 0
    beta: Annotated[float, about("weight of the KL term against the first model; 0 is none")] = 0.0
    max_tokens: Annotated[int, about("limit of output tokens of a response")] = 256
    temperature: Annotated[float, about("softmax temperature of the rollout")] = 1.0
    seed: Annotated[int, about("key of the training items, their order and every draw")] = 0

    instances: Annotated[int, about("model instances, each a process")] = 2
    kv_tokens: Annotated[int, about("tokens of KV that one instance holds")] = 8192
    max_running: Annotated[int, about("requests that one instance runs at once")] = 32
    policy: Annotated[
        str, about("divided, seer, context_aware, interleaved or group_round_robin")
    ] = "divided"
    chunk_size: Annotated[
        int, about("tokens a request generates before it is placed anew; 0 is all of them")
    ] = 32
    max_spread: Annotated[
        int, about("difference of running requests up to which cached KV decides the placement")
    ] = 8
    pull_gap_tokens: Annotated[
        int, about("cached tokens by which another instance must lead for KV to be moved")
    ] = 0
    pool_bytes: Annotated[int, about("host memory for KV that leaves its instance")] = 1 << 30
    drafting: Annotated[
        str,
        about("speculative decoding: off, seer, marginal (the paper's), or fixed:N guesses a step"),
    ] = "seer"
    warm_start: Annotated[
        bool, about("draft from what earlier weights wrote to the same prompts too")
    ] = False
    baseline: Annotated[
        bool, about("undivided rollout without drafting, whatever policy and drafting say")
    ] = False
    check_share: Annotated[
        float, about("part of the responses whose log-probabilities the trainer checks")
    ] = 1.0

    reward_function: Annotated[
        str | None,
        about("module:function or file.py:function instead of the tasks' verifiers"),
    ] = None
    partial_credit: Annotated[
        bool, about("reward the verifier's score as it is, not only a full one")
    ] = False
    format_bonus: Annotated[
        float, about("added to the reward when there is an answer in the form asked for")
    ] = 0.0
    reward_workers: Annotated[int, about("processes that compute rewards")] = 2
    reward_timeout_s: Annotated[float, about("seconds after which a reward call is ended")] = 10.0
    reward_on_error: Annotated[
        float, about("reward of a response whose reward call raised or was ended")
    ] = 0.0

    eval_every: Annotated[
        int, about("steps between evaluations; 0 is only before and after training")
    ] = 10
    eval_temperature: Annotated[float, about("temperature of evaluation; 0 is greedy")] = 0.0
    checkpoint_every: Annotated[int, about("steps between checkpoints")] = 10
    keep_checkpoints: Annotated[int, about("newest checkpoints that stay")] = 2

    out: Annotated[str, about("directory for the results; must be empty unless resumed")] = (
        "out/train"
    )
    log: Annotated[
        list[str],
        about("tensorboard, wandb, besides the console and metrics.jsonl (repeatable)"),
    ] = []
    metrics_port: Annotated[
        int | None, about("serve figures for Prometheus at this port while it runs")
    ] = None
    metrics_host: Annotated[str, about("address on which metrics_port listens")] = "127.0.0.1"
    sample_prompts: Annotated[
        int | None, about("prompts a step whose responses are saved (default: all)")
    ] = None
    resume: Annotated[bool, about("go on from the newest complete checkpoint in `out`")] = False

    def __post_init__(self) -> None:
        if not self.tasks:
            raise InvalidInput("tasks", [], "allowed: at least one table [[tasks]] with a name")
        self._check_numbers()
        self._check_batch()
        self._check_contradictions()
        if not 0 <= self.seed < SEEDS:
            raise InvalidInput("seed", self.seed, f"allowed: an integer in [0, {SEEDS})")
        OnPolicyCheck(share=self.check_share)
        DraftingConfig(budget=self.drafting)
        make_policy(self.policy)
        foreign = [name for name in self.log if name not in SINKS]
        if foreign:
            raise InvalidInput("log", ", ".join(foreign), f"allowed: {', '.join(SINKS)}")
        if self.policy == ORACLE:
            allowed = "allowed: a policy that needs no lengths known in advance"
            raise InvalidInput("policy", self.policy, allowed)

    @property
    def prompts_per_step(self) -> int:
        """Groups of one step's rollout."""
        return self.batch_size // self.group_size

    @property
    def rollout_policy(self) -> str:
        """The policy that runs: the baseline's where it is asked for."""
        return BASELINE_POLICY if self.baseline else self.policy

    @property
    def rollout_drafting(self) -> DraftingConfig:
        """The drafting that runs: none in the baseline."""
        if self.baseline:
            return DraftingConfig()
        return DraftingConfig(budget=self.drafting, warm_start=self.warm_start)

    @property
    def evaluates(self) -> bool:
        """Whether there are held-out items."""
        return self.held_out_items > 0

    def _check_numbers(self) -> None:
        check_minimum(self, MINIMUM)
        for name in POSITIVE:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidInput(name, value, "allowed: a finite number > 0")
        for name in FINITE:
            value = getattr(self, name)
            if not math.isfinite(value):
                raise InvalidInput(name, value, "allowed: a finite number")

    def _check_batch(self) -> None:
        if self.batch_size % self.group_size:
            allowed = f"allowed: a multiple of group_size, {self.group_size}"
            raise InvalidInput("batch_size", self.batch_size, allowed)
        if self.batch_size % self.micro_batch_size:
            allowed = f"allowed: a divisor of batch_size, {self.batch_size}"
            raise InvalidInput("micro_batch_size", self.micro_batch_size, allowed)

    def _check_contradictions(self) -> None:
        if self.reward_function is not None:
            for name in ("partial_credit", "format_bonus"):
                if getattr(self, name):
                    allowed = "allowed with the tasks' verifiers, not with a reward_function"
                    raise InvalidInput(name, getattr(self, name), allowed)
        if self.warm_start and self.drafting == OFF:
            raise InvalidInput("warm_start", True, "allowed: false while drafting is off")
