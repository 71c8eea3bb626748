"""verl's agent loop workers, whose loops ask Seer's router: every loop, single-turn or not."""

from typing import Any

from verl.experimental.agent_loop import AgentLoopWorker

from seer.errors import InvalidInput
from seer.trainers.verl.client import TRAJECTORY, SeerClient
from seer.trainers.verl.turns import Trajectory


class Scheduled:
    """Goes before a worker class of verl's: another client, and a context for each loop."""

    def __init__(self, config: Any, llm_client: Any, *args: Any, **kwargs: Any) -> None:
        """Raises InvalidInput for another router."""
        super().__init__(config, llm_client, *args, **kwargs)  # type: ignore[call-arg]  # see below
        self.router = router_of(llm_client)
        self.llm_client = SeerClient(llm_client, self.router)

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], **fields: Any
    ) -> Any:
        """Run a loop in the context of its trajectory. Raises InvalidInput for one without uid."""
        mine = _trajectory(trajectory, fields)
        TRAJECTORY.set(mine)  # verl runs each loop in a task, and so in a context, of its own
        try:
            # Of the class after this one.
            return await super()._run_agent_loop(sampling_params, trajectory, **fields)  # type: ignore[misc]
        finally:
            await self.router.leave.remote(mine.uid, mine.order)


class SeerAgentLoopWorker(Scheduled, AgentLoopWorker):  # type: ignore[misc]  # verl is not typed
    """For verl's V0 trainer, and for callers of a manager's `generate_sequences`."""


def router_of(llm_client: Any) -> Any:
    """Seer's router behind verl's client. Raises InvalidInput for another router."""
    router = llm_client._load_balancer  # noqa: SLF001 - verl hands it out nowhere else
    if not hasattr(router, "expect"):
        allowed = "allowed: seer/trainers/verl/router.yaml with Seer's agent loop manager"
        raise InvalidInput("rollout.router_config_path", "another router", allowed)
    return router


def _trajectory(info: dict[str, Any], fields: dict[str, Any]) -> Trajectory:
    uid = fields.get("uid")
    if uid is None:
        raise InvalidInput("uid", None, "allowed: a batch whose rows name their prompt's uid")
    # verl's trainers: V1 numbers the trajectories of a prompt, V0 the rows of the batch.
    order = fields["session_id"] if "session_id" in fields else fields["priority"]
    return Trajectory(
        uid=str(uid),
        order=int(order),
        step=int(info["step"]),
        is_validation=bool(info["validate"]),
    )
