"""The same worker for verl's V1 trainer, which takes results from its transfer queue."""

from typing import Any

from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

from seer.trainers.verl.worker import Scheduled

# verl exports an actor class; Ray keeps the class that it was made of.
_Worker: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class.__ray_actor_class__


class SeerAgentLoopWorkerTQ(Scheduled, _Worker):  # type: ignore[misc]  # verl is not typed
    """For verl's V1 trainer."""

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: dict[str, Any], **kwargs: Any
    ) -> None:
        """Run all trajectories of a prompt: their number is known here alone."""
        rollout = self.config.actor_rollout_ref.rollout
        is_validation = kwargs["trajectory"]["validate"]
        size = rollout.val_kwargs.n if is_validation else prompt.get("__rollout_n__", rollout.n)
        await self.router.expect.remote({str(prompt["uid"]): int(size)})
        await super()._run_prompt(prompt, sampling_params, **kwargs)
