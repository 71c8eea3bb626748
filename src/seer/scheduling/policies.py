"""The scheduling policies by name.

Two kinds. A static policy deals whole requests to instances at once, and the engines queue them,
first come first served. A divided policy orders the waiting requests; admission and placement do
the rest, chunk by chunk.
"""

from collections.abc import Callable

from seer.errors import InvalidInput
from seer.scheduling.divided_policies import ContextAware, Divided, DividedPolicy, Oracle
from seer.scheduling.seer_policy import SeerPolicy
from seer.scheduling.static_policies import GroupRoundRobin, Interleaved, StaticPolicy

ORACLE = "oracle"
"""Needs `GroupSpec.known_lengths`."""

_STATIC: dict[str, Callable[[], StaticPolicy]] = {
    "group_round_robin": GroupRoundRobin,
    "interleaved": Interleaved,
}
_DIVIDED: dict[str, Callable[[int | None], DividedPolicy]] = {
    "divided": Divided,
    "context_aware": ContextAware,
    "seer": SeerPolicy,
    ORACLE: Oracle,
}
STATIC_POLICY_NAMES = tuple(_STATIC)
DIVIDED_POLICY_NAMES = tuple(_DIVIDED)
POLICY_NAMES = STATIC_POLICY_NAMES + DIVIDED_POLICY_NAMES


def make_policy(
    name: str, chunk_size: int | None = None
) -> tuple[StaticPolicy, None] | tuple[None, DividedPolicy]:
    """The policy of that name, by kind. Raises InvalidInput for an unknown one.

    `chunk_size` is the most tokens of a chunk of a divided policy; None: requests run whole.
    """
    if name in _STATIC:
        return _STATIC[name](), None
    if name in _DIVIDED:
        return None, _DIVIDED[name](chunk_size)
    raise InvalidInput("policy", name, f"allowed: {', '.join(POLICY_NAMES)}")
