"""All settings of the command line: one struct, from which flags, TOML names and help follow.

A setting is called the same in a TOML file (`kv_tokens`) and as a flag (`--kv-tokens`). Flags win
over the file, the file over the defaults, which suit a laptop. What is checked here needs no model;
sampling values are checked by SamplingParams, scheduling values by RolloutConfig.
"""

from typing import Annotated, Literal

import msgspec

from seer.cli.name_lists import names_by_commas
from seer.drafting.config import OFF, SEER, DraftingConfig
from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.scheduling.policies import ORACLE
from seer.setting_fields import about, check_minimum
from seer.types import SamplingParams

Logprobs = Literal["raw", "processed"]
EngineName = Literal["local", "vllm"]
ClusterName = Literal["none", "ray"]


MINIMUM = {
    "num_prompts": 1,
    "group_size": 1,
    "instances": 1,
    "kv_tokens": 1,
    "max_running": 1,
    "chunk_size": 0,
    "max_spread": 0,
    "pull_gap_tokens": 0,
    "pool_bytes": 0,
    "pool_disk_bytes": 0,
    "draft_servers": 1,
    "pool_nodes": 0,
    "max_instances": 1,
    "metrics_port": 1,
}
"""Least allowed values of whole numbers."""

CLUSTER_ONLY = ("ray_address", "instance_gpus", "pool_nodes", "max_instances")
"""Settings without a default that have no meaning on this machine alone."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that `seer rollout` and `seer bench` share."""

    prompts: Annotated[
        str, about("prompts.jsonl, prompts.parquet or reasoning-gym:<task>[,<task>...]")
    ]
    num_prompts: Annotated[
        int | None,
        about("use the first N prompts (default: all of a file, 8 of reasoning-gym)"),
    ] = None
    group_size: Annotated[int, about("responses for each prompt")] = 8

    engine: Annotated[EngineName, about("what generates: local, or vllm where it is installed")] = (
        "local"
    )
    allow_untried_vllm: Annotated[
        bool, about("go on with a vLLM release that Seer was not tried with")
    ] = False
    model: Annotated[
        str | None,
        about("model directory in Hugging Face format (default: SmolLM2-135M-Instruct)"),
    ] = None
    dtype: Annotated[str, about("bfloat16, or float32 for texts that no setting changes")] = (
        "bfloat16"
    )
    device: Annotated[str, about("cpu or cuda")] = "cpu"
    logprobs: Annotated[
        Logprobs, about("raw (of the model) or processed (after temperature and filters)")
    ] = "processed"

    instances: Annotated[int, about("model instances, each a process")] = 2
    cluster: Annotated[ClusterName, about("none, or ray: instances are actors of a cluster")] = (
        "none"
    )
    ray_address: Annotated[
        str | None,
        about("host:port of the cluster (default: RAY_ADDRESS, else a Ray on this machine)"),
    ] = None
    instance_cpus: Annotated[float, about("CPUs that Ray reserves for an instance")] = 1.0
    instance_gpus: Annotated[
        float | None, about("GPUs likewise (default: 1 with --device cuda, else 0)")
    ] = None
    draft_servers: Annotated[
        int, about("draft servers on the cluster, over which groups are sharded")
    ] = 1
    pool_nodes: Annotated[
        int | None,
        about("actors that hold the KV pool (default: shared memory, or 1 over several nodes)"),
    ] = None
    max_instances: Annotated[
        int | None, about("take in instances up to this number as the cluster gains room")
    ] = None
    metrics_port: Annotated[
        int | None, about("serve figures for Prometheus at this port while it runs")
    ] = None
    metrics_host: Annotated[str, about("address on which metrics_port listens")] = "127.0.0.1"
    kv_tokens: Annotated[int, about("tokens of KV that one instance holds")] = 8192
    max_running: Annotated[int, about("requests that one instance runs at once")] = 32
    drafting: Annotated[
        str,
        about("speculative decoding: seer, marginal (the paper's), fixed:N guesses a step, or off"),
    ] = SEER
    profile: Annotated[
        str | None,
        about("step times for seer and marginal, from `seer profile` (default: measured at start)"),
    ] = None
    warm_start: Annotated[
        bool, about("draft from what earlier weights wrote to the same prompts too")
    ] = False
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
    pool_disk_bytes: Annotated[int, about("disk space for what the host memory cannot hold")] = 0
    pool: Annotated[
        str | None,
        about("store for what neither can hold: mooncake://host:port (default: none)"),
    ] = None

    temperature: Annotated[float, about("softmax temperature; 0 is greedy")] = 0.8
    top_p: Annotated[float, about("nucleus mass; 1 is off")] = 1.0
    top_k: Annotated[int, about("keep the k likeliest tokens; 0 is off")] = 0
    min_p: Annotated[float, about("keep tokens of at least min_p times the top; 0 is off")] = 0.0
    max_tokens: Annotated[int, about("limit of output tokens of a response")] = 256
    stop: Annotated[list[str], about("string that ends a response (repeatable)")] = []
    ignore_eos: Annotated[bool, about("go on after the model's end token")] = False
    seed: Annotated[int, about("key of every random draw, and of reasoning-gym's items")] = 0

    def __post_init__(self) -> None:
        check_minimum(self, MINIMUM)
        self._check_cluster()
        PoolConfig(remote=self.pool)
        for drafting in self.draftings:
            DraftingConfig(budget=drafting)
        if self.pool_disk_bytes > 0 and self.pool_bytes == 0:
            raise InvalidInput(
                "pool_disk_bytes",
                self.pool_disk_bytes,
                "allowed: 0 while pool_bytes is 0, since KV reaches the disk through host memory",
            )

    def _check_cluster(self) -> None:
        """What only a cluster reads is refused without one."""
        given = [name for name in CLUSTER_ONLY if getattr(self, name) is not None]
        if self.cluster == "none" and given:
            raise InvalidInput(given[0], getattr(self, given[0]), "allowed with --cluster ray")

    @property
    def policy_names(self) -> list[str]:
        """The policies that the command runs."""
        raise NotImplementedError

    @property
    def draftings(self) -> list[str]:
        """The kinds of drafting that the command runs."""
        return [self.drafting]

    @property
    def sampling(self) -> SamplingParams:
        """The settings that decide how tokens are drawn. Raises InvalidInput on a bad one."""
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            max_tokens=self.max_tokens,
            stop=tuple(self.stop),
            ignore_eos=self.ignore_eos,
            seed=self.seed,
        )


class RolloutSettings(Settings, frozen=True, kw_only=True):
    """Settings of `seer rollout`."""

    policy: Annotated[
        str, about("divided, seer, context_aware, interleaved or group_round_robin")
    ] = "divided"
    out: Annotated[str, about("directory for the results; must be empty unless resumed")] = (
        "out/rollout"
    )
    format: Annotated[str, about("completions as parquet or jsonl")] = "parquet"
    resume: Annotated[bool, about("go on with the interrupted rollout in `out`")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.policy == ORACLE:
            allowed = "allowed: in seer bench, after another policy whose lengths it takes"
            raise InvalidInput("policy", self.policy, allowed)
        if self.format not in {"parquet", "jsonl"}:
            raise InvalidInput("format", self.format, "allowed: parquet, jsonl")

    @property
    def policy_names(self) -> list[str]:
        """The policy, as a list of one."""
        return [self.policy]


class BenchSettings(Settings, frozen=True, kw_only=True):
    """Settings of `seer bench`."""

    policies: Annotated[str, about("policies to compare, by commas; the first is the baseline")] = (
        "group_round_robin,interleaved,divided,seer"
    )
    drafting: Annotated[
        str,
        about("off, seer, marginal or fixed:N, or several by commas, each run with every policy"),
    ] = OFF
    repeats: Annotated[int, about("rollouts of each policy")] = 3
    json: Annotated[str | None, about("file for one JSON row a policy and repeat")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.repeats < 1:
            raise InvalidInput("repeats", self.repeats, "allowed: an integer >= 1")
        names = self.policy_names
        if names[0] == ORACLE:
            allowed = "allowed: oracle after another policy, whose lengths it takes"
            raise InvalidInput("policies", self.policies, allowed)

    @property
    def policy_names(self) -> list[str]:
        """The policies in the order given."""
        return names_by_commas("policies", self.policies)

    @property
    def draftings(self) -> list[str]:
        """The kinds of drafting in the order given."""
        return names_by_commas("drafting", self.drafting)
