"""What verl's agent loops get as their server manager: their turns go to Seer's router."""

from contextvars import ContextVar
from typing import Any

from verl.workers.rollout.replica import TokenOutput

from seer.errors import InvalidInput
from seer.trainers.verl.turns import Generated, Trajectory, Turn

TRAJECTORY: ContextVar[Trajectory | None] = ContextVar("seer_trajectory", default=None)
"""Of the loop that runs in this context."""


class SeerClient:
    """Stands before verl's LLMServerClient; a call outside a trajectory goes to that."""

    def __init__(self, client: Any, router: Any) -> None:
        self._client = client
        self._router = router

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: Any = None,
        video_data: Any = None,
        audio_data: Any = None,
        **kwargs: Any,
    ) -> TokenOutput:
        """One turn of the trajectory. Raises InvalidInput for media."""
        trajectory = TRAJECTORY.get()
        if trajectory is None:
            return await self._client.generate(
                request_id,
                prompt_ids=prompt_ids,
                sampling_params=sampling_params,
                image_data=image_data,
                video_data=video_data,
                audio_data=audio_data,
                **kwargs,
            )
        if any(data for data in (image_data, video_data, audio_data)):
            raise InvalidInput("image_data", "some", "allowed: none; Seer schedules text only")
        turn = Turn(
            trajectory=trajectory,
            prompt_ids=[int(token) for token in prompt_ids],
            params=dict(sampling_params),
        )
        generated: Generated = await self._router.generate.remote(turn)
        return _output(generated, wants_logprobs=bool(sampling_params.get("logprobs")))


def _output(generated: Generated, *, wants_logprobs: bool) -> TokenOutput:
    """As verl's own client returns it."""
    return TokenOutput(
        token_ids=generated.token_ids,
        log_probs=generated.logprobs if wants_logprobs else None,
        stop_reason="completed",
        num_preempted=generated.num_preempted,
        extra_fields={
            "global_steps": generated.global_steps,
            "min_global_steps": generated.global_steps,
            "max_global_steps": generated.global_steps,
            "num_cached_tokens": generated.num_cached_tokens,
        },
    )
