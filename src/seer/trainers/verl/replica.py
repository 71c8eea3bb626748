"""verl's replica of Seer's engine: one server actor beside one of verl's workers."""

from typing import Any

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.plugin.platform import get_platform
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.device import get_resource_name
from verl.workers.rollout.replica import RolloutReplica

from seer.drafting.config import DraftingConfig
from seer.trainers.verl.plugin import ENGINE
from seer.trainers.verl.server import SeerServer, ServerSetup
from seer.trainers.verl.settings import engine_spec, read_lengths, read_settings


class SeerReplica(RolloutReplica):  # type: ignore[misc]  # verl is not typed
    """One replica; its device is that of its worker."""

    async def launch_servers(self) -> None:
        """Start the server actor. Raises InvalidInput for keys that the engine cannot serve."""
        node_id, device_id = await self.workers[0].__ray_call__.remote(_whereabouts)
        settings = read_settings(self.config)
        device = settings.device or ("cpu" if device_id is None else "cuda")
        model = omega_conf_to_dataclass(self.model_config)
        setup = ServerSetup(
            replica_rank=self.replica_rank,
            spec=engine_spec(self.config, model, settings, device),
            lengths=read_lengths(self.config),
            drafting=DraftingConfig(budget=settings.drafting),
            seed=self.config.seed,
            ignore_eos=self.config.ignore_eos,
            frees_engine=device != "cpu" and self.config.free_cache_engine,
        )
        name = f"{server_name(self.replica_rank)}{self._role()}"
        server = (
            ray.remote(SeerServer)
            .options(
                name=name,
                max_concurrency=self.max_concurrency,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node_id, soft=False),
                runtime_env={"env_vars": _environment(device_id)},
            )
            .remote(setup)
        )
        await server.describe.remote()  # it is up, or says why not
        self.servers = [server]
        self._server_handle = server
        self._server_address = name

    def _role(self) -> str:
        role = "_reward" if self.is_reward_model else "_teacher" if self.is_teacher_model else ""
        return f"{role}{self.name_suffix}"


def server_name(replica_rank: int) -> str:
    """Of the actor: adapters look it up."""
    return f"{ENGINE}_server_{replica_rank}"


def _whereabouts(_worker: Any) -> tuple[str, str | None]:
    """In verl's worker: its node, and the GPU that Ray gave it, if it is one that torch can use."""
    context = ray.get_runtime_context()
    devices = context.get_accelerator_ids().get(get_resource_name()) or []
    return context.get_node_id(), devices[0] if devices and torch.cuda.is_available() else None


def _environment(device_id: str | None) -> dict[str, str]:
    """The worker's device for an actor that asks Ray for none."""
    if device_id is None:
        return {}
    platform = get_platform()
    keep = dict.fromkeys(platform.ray_noset_envvars(), "1")
    return {**keep, platform.visible_devices_envvar(): device_id}
