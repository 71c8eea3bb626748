"""What a simulated rollout has to generate: groups whose lengths are known to the simulator."""

from dataclasses import dataclass
from functools import cached_property

from seer.errors import InvalidInput
from seer.types import GroupSpec, RequestId


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Groups with the true length of every member, in `GroupSpec.known_lengths`.

    Policies other than `oracle` never look at the lengths. Raises InvalidInput when there is no
    group, or a group lacks its lengths.
    """

    name: str
    groups: tuple[GroupSpec, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise InvalidInput("workload", self.name, "allowed: at least one group")
        for group in self.groups:
            if len(group.known_lengths) != group.group_size:
                shown = f"{self.name}, group {group.group_id}"
                raise InvalidInput("known_lengths", shown, "allowed: one length a member")

    def length(self, request_id: RequestId) -> int:
        """True output tokens of a request."""
        return self._by_id[request_id.group].known_lengths[request_id.member]

    def group(self, group_id: int) -> GroupSpec:
        """The group of that number."""
        return self._by_id[group_id]

    def num_prompt_tokens(self, group_id: int) -> int:
        """Tokens of a group's prompt."""
        return self._by_id[group_id].num_prompt_tokens

    @property
    def num_requests(self) -> int:
        """Responses in all."""
        return sum(group.group_size for group in self.groups)

    @property
    def output_tokens(self) -> int:
        """Output tokens in all."""
        return sum(sum(group.known_lengths) for group in self.groups)

    @property
    def max_context_tokens(self) -> int:
        """Most tokens that a request may come to, its prompt included."""
        return max(group.num_prompt_tokens + group.max_tokens for group in self.groups)

    @cached_property
    def _by_id(self) -> dict[int, GroupSpec]:
        return {group.group_id: group for group in self.groups}
