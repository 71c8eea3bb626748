"""Which groups may have been begun, so that their prompts leave most of the memory to responses.

A group under way has its prompt's KV on every instance that runs one of its members. Where prompts
are short against responses all groups can be under way at once. Where they are not, that fills the
memory with prompts that few members share, and fewer responses run.
"""

from collections import OrderedDict

PROMPT_SHARE = 1 / 8
"""Part of all instances' KV that the prompts of open groups may take, each counted once."""


class OpenGroups:
    """Groups are opened in the order in which they came, as room allows."""

    def __init__(self) -> None:
        self._prompt_tokens: dict[int, int] = {}
        """Of open groups."""
        self._closed: OrderedDict[int, int] = OrderedDict()
        """Prompt tokens of the others, in the order in which they came."""
        self._open_tokens = 0
        self._most_tokens = 0.0

    def __contains__(self, group_id: int) -> bool:
        return group_id in self._prompt_tokens

    def resize(self, kv_tokens: int) -> list[int]:
        """The instances hold so many tokens; returns the groups that this opens."""
        self._most_tokens = PROMPT_SHARE * kv_tokens
        return self._open_what_fits()

    def add(self, group_id: int, num_prompt_tokens: int) -> None:
        """A group has come; it is opened now if there is room."""
        self._closed[group_id] = num_prompt_tokens
        self._open_what_fits()

    def remove(self, group_id: int) -> list[int]:
        """A group is complete; returns the groups that this opens."""
        self._closed.pop(group_id, None)
        self._open_tokens -= self._prompt_tokens.pop(group_id, 0)
        return self._open_what_fits()

    def _open_what_fits(self) -> list[int]:
        opened = []
        while self._closed:
            group_id, num_tokens = next(iter(self._closed.items()))
            if self._open_tokens + num_tokens > self._most_tokens:
                break
            del self._closed[group_id]
            self._prompt_tokens[group_id] = num_tokens
            self._open_tokens += num_tokens
            opened.append(group_id)
        return opened
