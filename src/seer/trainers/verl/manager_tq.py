"""The manager for verl's V1 trainer; see manager.py. Needs verl's TransferQueue."""

from typing import Any

import ray
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ

from seer.trainers.verl.manager import configure_router
from seer.trainers.verl.worker_tq import SeerAgentLoopWorkerTQ


class SeerAgentLoopManagerTQ(AgentLoopManagerTQ):  # type: ignore[misc]  # verl is not typed
    """verl's, with other workers."""

    def __init__(self, config: Any, llm_client: Any, *args: Any, **kwargs: Any) -> None:
        """Raises InvalidInput for settings that contradict each other."""
        configure_router(config, llm_client)
        super().__init__(config, llm_client, *args, **kwargs)
        self.agent_loop_workers_class = ray.remote(SeerAgentLoopWorkerTQ)
