"""verl's router with Seer's controller in it: one actor that sees every request and every server.

`rollout.router_config_path` names a file with `router_class: seer.trainers.verl.router.SeerRouter`
(router.yaml beside this module). verl's agent loop workers, started by Seer's manager, ask it for
whole turns; it divides them into chunks, and calls the servers itself. What comes past Seer's
workers is routed as by verl's default.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import ray
from verl.workers.rollout.router import GlobalRequestLoadBalancer

from seer.errors import InvalidInput
from seer.rollout.config import RolloutConfig
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import PromptItem
from seer.trainers.borrowed.vllm_params import seer_sampling
from seer.trainers.verl.fleet_config import RouterSetup, fleet_config
from seer.trainers.verl.groups import Groups
from seer.trainers.verl.servers import Note
from seer.trainers.verl.sessions import Sessions
from seer.trainers.verl.turns import Generated, Trajectory, Turn
from seer.types import RequestId, SamplingParams

MANAGER = "seer.trainers.verl.manager.SeerAgentLoopManager"
_YAML_KEYS = {"router_class"}


class Router(GlobalRequestLoadBalancer):  # type: ignore[misc]  # verl is not typed
    """The class of the actor. Its event loop is the rollout's."""

    def __init__(self, servers: Mapping[str, Any], yaml: Mapping[str, Any]) -> None:
        """`servers` by id. Raises InvalidInput for keys in the file that mean nothing here."""
        if unknown := set(yaml) - _YAML_KEYS:
            allowed = "allowed: router_class; settings go under rollout.custom.seer"
            raise InvalidInput("rollout.router_config_path", sorted(unknown), allowed)
        super().__init__(servers)
        self._setup: RouterSetup | None = None
        self._groups = Groups(self._submit)
        self.sessions = Sessions(self._config)
        self._notes: defaultdict[RequestId, Note] = defaultdict(Note)
        self._params: list[dict[str, Any]] = []
        self._num_drawn: Counter[str] = Counter()
        self._drawn_step: int | None = None

    def acquire_server(self, request_id: str) -> tuple[str, Any]:
        """A server for a request that comes past Seer. Raises InvalidInput without its manager."""
        self._settled()
        server: tuple[str, Any] = super().acquire_server(request_id)
        return server

    async def configure(self, setup: RouterSetup) -> None:
        """Called by the manager before anything else."""
        self._setup = setup

    async def expect(self, sizes: Mapping[str, int]) -> None:
        """How many trajectories each prompt of a batch has. Raises InvalidInput."""
        self._groups.expect(sizes)

    async def generate(self, turn: Turn) -> Generated:
        """One turn of a trajectory, when all its siblings' first turns have come.

        Raises InvalidInput for what cannot be divided, EngineFailure when the rollout cannot go on.
        """
        setup = self._settled()
        num_prompt = len(turn.prompt_ids)
        limit = setup.lengths.limit(turn.params, num_prompt, setup.max_context_tokens)
        sampling = seer_sampling({**turn.params, "max_tokens": limit})
        sampling = msgspec.structs.replace(sampling, seed=self._seed(setup, turn.params))
        return await self._groups.turn(turn.trajectory, turn.prompt_ids, sampling)

    async def leave(self, uid: str, order: int) -> None:
        """A trajectory is over."""
        self._groups.leave(uid, order)

    async def metrics(self) -> RolloutMetrics | None:
        """Figures of the session in progress, else of the last one; None before the first."""
        return self.sessions.metrics

    # ---------------------------------------------------------------- internals

    def _settled(self) -> RouterSetup:
        if self._setup is None:
            allowed = f"allowed: {MANAGER} with Seer's router"
            raise InvalidInput("rollout.agent.agent_loop_manager_class", None, allowed)
        return self._setup

    def _config(self) -> RolloutConfig:
        """Of a new session, over the servers of this moment."""
        self._notes.clear()
        return fleet_config(
            self._settled(), list(self._servers.values()), self._params.__getitem__, self._notes
        )

    def _seed(self, setup: RouterSetup, params: dict[str, Any]) -> int:
        """Verl's seed for Seer's engines; for others the place of the caller's parameters."""
        if setup.is_seer_engine:
            return setup.seed
        if params not in self._params:
            self._params.append(params)
        return self._params.index(params)

    async def _submit(
        self, trajectory: Trajectory, prompt: Sequence[int], sampling: SamplingParams, size: int
    ) -> list[Generated]:
        item = PromptItem(prompt=list(prompt), sampling_index=self._draw_key(trajectory, prompt))
        group = await self.sessions.generate(item, sampling, size)
        generated = []
        for completion in group.completions:
            note = self._notes.pop(RequestId(group.group_id, completion.member), Note())
            generated.append(
                Generated(
                    token_ids=completion.output_token_ids,
                    logprobs=completion.logprobs,
                    global_steps=note.global_steps,
                    num_preempted=note.num_preempted,
                    num_cached_tokens=note.num_cached_tokens,
                )
            )
        return generated

    def _draw_key(self, trajectory: Trajectory, prompt: Sequence[int]) -> int:
        """Keys the draws of a group: a run with the same seed draws the same.

        The same prompt twice in a step has keys of its own, in the order of coming.
        """
        if trajectory.step != self._drawn_step:
            self._drawn_step = trajectory.step
            self._num_drawn.clear()
        name = f"{trajectory.step}:{trajectory.is_validation}:{','.join(map(str, prompt))}"
        self._num_drawn[name] += 1
        text = f"{name}:{self._num_drawn[name]}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest()) >> 1


SeerRouter = ray.remote(max_concurrency=1_000_000)(Router)
"""What `router_class` names. Every turn in progress is a call in progress, so none may be held."""
