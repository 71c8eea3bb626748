"""slime's own rollout function, as far as an evaluation is handed over to it."""

from typing import Any

from slime.rollout.base_types import RolloutFnEvalOutput


def generate_rollout(
    args: Any,
    rollout_id: int,
    data_source: Any,
    evaluation: bool = False,  # noqa: FBT001, FBT002 - slime's signature
) -> RolloutFnEvalOutput:
    """Its signature only."""
    raise NotImplementedError(args, rollout_id, data_source, evaluation)
