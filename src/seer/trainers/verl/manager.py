"""verl's agent loop manager with Seer's workers.

`actor_rollout_ref.rollout.agent.agent_loop_manager_class=seer.trainers.verl.manager.SeerAgentLoopManager`
"""

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import ray
from verl.experimental.agent_loop import AgentLoopManager
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.ray_utils import auto_await

from seer.errors import InvalidInput
from seer.trainers.verl.fleet_config import RouterSetup
from seer.trainers.verl.plugin import ENGINE
from seer.trainers.verl.settings import engine_spec, read_lengths, read_settings
from seer.trainers.verl.worker import SeerAgentLoopWorker, router_of


class SeerAgentLoopManager(AgentLoopManager):  # type: ignore[misc]  # verl is not typed
    """For verl's V0 trainer and direct use; `create` makes the one for V1 where verl runs that."""

    def __init__(self, config: Any, llm_client: Any, *args: Any, **kwargs: Any) -> None:
        """Raises InvalidInput for settings that contradict each other."""
        configure_router(config, llm_client)
        self.agent_loop_workers_class = ray.remote(SeerAgentLoopWorker)
        super().__init__(config, llm_client, *args, **kwargs)

    @classmethod
    def create(cls, *args: Any, config: Any, **kwargs: Any) -> Any:
        """As verl's: the manager with its workers started."""
        if not config.trainer.get("use_v1", False):
            return super().create(*args, config=config, **kwargs)
        manager_tq = importlib.import_module("seer.trainers.verl.manager_tq")
        return manager_tq.SeerAgentLoopManagerTQ.create(*args, config=config, **kwargs)

    @auto_await  # type: ignore[untyped-decorator]  # verl is not typed
    async def generate_sequences(self, prompts: Any) -> Any:
        """A batch, each row a trajectory. Raises InvalidInput when its groups are not rollout.n."""
        sizes = self._group_sizes(prompts)
        await self.llm_client._load_balancer.expect.remote(sizes)  # noqa: SLF001 - see router_of
        return await super().generate_sequences(prompts)

    def _group_sizes(self, prompts: Any) -> dict[str, int]:
        uids: Sequence[Any] | None = prompts.non_tensor_batch.get("uid")
        if uids is None:
            raise InvalidInput("uid", None, "allowed: a batch whose rows name their prompt's uid")
        is_validation = prompts.meta_info.get("validate", False)
        rollout = self.rollout_config
        size = rollout.val_kwargs.n if is_validation else rollout.n
        sizes = Counter(str(uid) for uid in uids)
        # REMAX adds a greedy row to each prompt.
        extra = 1 if "__do_sample__" in prompts.non_tensor_batch else 0
        for uid, count in sizes.items():
            if not size <= count <= size + extra:
                key = "rollout.val_kwargs.n" if is_validation else "rollout.n"
                allowed = f"allowed: {size} rows of each prompt ({key})"
                raise InvalidInput("uid", f"{count} rows of prompt {uid}", allowed)
        return dict(sizes)


def configure_router(config: Any, llm_client: Any) -> None:
    """Tell Seer's router of verl's configuration. Raises InvalidInput."""
    router = router_of(llm_client)
    ray.get(router.configure.remote(router_setup(config)))


def router_setup(config: Any) -> RouterSetup:
    """What the router needs of verl's configuration. Raises InvalidInput."""
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    model = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    settings = read_settings(rollout)
    lengths = read_lengths(rollout)
    engine = None
    if rollout.name == ENGINE:
        device = settings.device or "cpu"  # the sizes are the same on every device
        engine = engine_spec(rollout, model, settings, device).describe()
    return RouterSetup(
        settings=settings,
        lengths=lengths,
        seed=rollout.seed,
        max_running=rollout.max_num_seqs,
        max_context_tokens=engine.max_context_tokens if engine else lengths.max_context_tokens,
        model=str(model.local_path),
        tokenizer=model.tokenizer,
        eos_token_ids=_eos_token_ids(model),
        engine=engine,
    )


def _eos_token_ids(model: Any) -> tuple[int, ...]:
    """Where vLLM ends a response: the tokenizer's token, and those of the generation settings."""
    ends = [model.tokenizer.eos_token_id, getattr(model.generation_config, "eos_token_id", None)]
    flat: list[int] = []
    for end in ends:
        flat += end if isinstance(end, list) else [] if end is None else [end]
    return tuple(sorted(set(flat)))
