"""What a command is about to do, with everything refused that can be refused without a model.

Prompts are read and tokenised and the model's configuration is read; no weight is loaded.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from seer.cli.engine_choice import choose_engine
from seer.cli.journal import JournalHeader
from seer.cli.prompts import PromptRow, read_prompts
from seer.cli.settings import Settings
from seer.cluster.ray_cluster import RayCluster
from seer.costmodel.profile_file import read_profile
from seer.drafting.config import DraftingConfig
from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec
from seer.engines.vllm.spec import VllmSpec
from seer.errors import InvalidInput
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.controller_config import check_fits
from seer.rollout.local_site import ThisMachine
from seer.rollout.prompts import EncodedPrompt, PromptItem, encode_prompts
from seer.rollout.site import SiteSpec
from seer.scheduling.placement import PlacementConfig
from seer.scheduling.policies import make_policy
from seer.types import EngineInfo, GroupSpec, SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A checked request for a rollout."""

    settings: Settings
    sampling: SamplingParams
    spec: LocalSpec | VllmSpec
    drafting: DraftingConfig
    prompts: tuple[PromptItem, ...]
    """In tokens, with the place of each as its sampling index."""

    @property
    def num_requests(self) -> int:
        """Responses wanted."""
        return len(self.prompts) * self.settings.group_size

    @property
    def header(self) -> JournalHeader:
        """What decides the texts."""
        token_ids = [prompt.prompt for prompt in self.prompts]
        digest = hashlib.blake2b(msgspec.json.encode(token_ids), digest_size=16)
        return JournalHeader(
            engine=self.settings.engine,
            model=str(Path(self.spec.model).resolve()),
            dtype=self.spec.dtype,
            logprobs=self.spec.logprobs,
            group_size=self.settings.group_size,
            sampling=self.sampling,
            prompts_digest=digest.hexdigest(),
        )

    def config(self, policy: str, trace_path: Path | None) -> RolloutConfig:
        """The rollout session for one policy. Raises InvalidInput on a bad setting."""
        settings = self.settings
        return RolloutConfig(
            engine=ProcessSpec(inner=self.spec),
            site=_site(settings),
            num_instances=settings.instances,
            policy=policy,
            chunk_size=settings.chunk_size or None,
            placement=_placement(settings),
            pool=_pool(settings),
            drafting=self.drafting,
            trace_path=trace_path,
        )


def prepare(settings: Settings) -> Job:
    """Read and check everything. Raises InvalidInput; EngineFailure without the engine."""
    sampling = settings.sampling
    for policy in settings.policy_names:
        make_policy(policy)
    drafting = _drafting(settings)
    rows = read_prompts(settings.prompts, settings.num_prompts, settings.seed)
    spec = choose_engine(settings)
    info = spec.describe()
    encoded = encode_prompts([_item(row) for row in rows], spec.tokenizer(), info)
    for prompt in encoded:
        _check_length(prompt, settings, info)
    prompts = tuple(
        PromptItem(
            prompt=prompt.token_ids,
            prompt_id=prompt.prompt_id,
            metadata=prompt.metadata,
            sampling_index=prompt.sampling_index,
        )
        for prompt in encoded
    )
    return Job(settings=settings, sampling=sampling, spec=spec, drafting=drafting, prompts=prompts)


def _item(row: PromptRow) -> PromptItem:
    return PromptItem(prompt=row.content, prompt_id=row.prompt_id, metadata=row.metadata)


def _check_length(prompt: EncodedPrompt, settings: Settings, info: EngineInfo) -> None:
    """A request must fit the model's context and, alone, one instance's KV memory."""
    num_tokens = len(prompt.token_ids)
    if num_tokens >= info.max_context_tokens:
        raise InvalidInput(
            "prompts",
            f"prompt {prompt.prompt_id} of {num_tokens} tokens",
            f"allowed: fewer than the model's context of {info.max_context_tokens}",
        )
    group = GroupSpec(
        group_id=prompt.sampling_index,
        group_size=settings.group_size,
        num_prompt_tokens=num_tokens,
        max_tokens=settings.max_tokens,
    )
    check_fits(group, info)


def _drafting(settings: Settings) -> DraftingConfig:
    step_time = read_profile(Path(settings.profile)).step_time if settings.profile else None
    return DraftingConfig(
        budget=settings.draftings[0], step_time=step_time, warm_start=settings.warm_start
    )


def _site(settings: Settings) -> SiteSpec:
    """This machine, or the cluster that the settings name."""
    if settings.cluster == "none":
        return ThisMachine()
    gpus = settings.instance_gpus
    return RayCluster(
        address=settings.ray_address,
        instance_cpus=settings.instance_cpus,
        instance_gpus=float(settings.device == "cuda") if gpus is None else gpus,
        draft_servers=settings.draft_servers,
        pool_nodes=settings.pool_nodes,
        max_instances=settings.max_instances,
    )


def _placement(settings: Settings) -> PlacementConfig:
    return PlacementConfig(max_spread=settings.max_spread, pull_gap_tokens=settings.pull_gap_tokens)


def _pool(settings: Settings) -> PoolConfig:
    return PoolConfig(
        host_bytes=settings.pool_bytes,
        disk_bytes=settings.pool_disk_bytes,
        remote=settings.pool,
    )
