"""The KV objects that an instance holds: prompts of groups, and the rest of each request.

Owns the memory's blocks. A prompt's full blocks are shared by its group's requests by reference;
its last, partial block is copied into each request's first own block. Invariant: every block is
free or belongs to exactly one object. Objects that no running request uses can be evicted, oldest
first; a prompt goes after the requests that build on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from seer.engines.serving.block_allocator import BlockAllocator
from seer.engines.serving.step_model import BlockMemory, TokenMove
from seer.types import KVKey, RequestId


@dataclass(slots=True)
class PromptKV:
    """KV of a group's prompt without its last token."""

    key: KVKey
    token_ids: list[int]
    """What it covers once filled: the prompt less its last token."""
    blocks: list[int]
    filled: int = 0
    """Tokens whose KV is written, from the first."""
    users: set[RequestId] = field(default_factory=set)
    """Requests with KV here that build on it, running or idle."""
    doomed: bool = False
    """To be freed when its last user has gone."""

    @property
    def num_tokens(self) -> int:
        """Tokens covered once filled."""
        return len(self.token_ids)

    @property
    def is_filled(self) -> bool:
        """Whether members may build on it."""
        return self.filled == self.num_tokens


@dataclass(slots=True)
class RequestKV:
    """KV of one request after its prompt's full blocks."""

    key: KVKey
    prompt: PromptKV
    blocks: list[int]
    token_ids: list[int]
    """All tokens that `filled` refers to, prompt included: checked when a chunk resumes."""
    filled: int = 0
    """Tokens covered from the first prompt token."""
    is_running: bool = False
    kept: int | None = None
    """Tokens whose KV stays when anything else wants blocks; None: all that are filled."""

    def table(self, block_tokens: int) -> list[int]:
        """Block table: the prompt's full blocks, then its own."""
        return self.prompt.blocks[: self.prompt.num_tokens // block_tokens] + self.blocks


class KVObjects:
    """All KV of one instance, by object."""

    def __init__(self, memory: BlockMemory, block_tokens: int) -> None:
        self._memory = memory
        self._allocator = BlockAllocator(memory.num_blocks)
        self._block_tokens = block_tokens
        self._prompts: dict[int, PromptKV] = {}
        self._requests: dict[RequestId, RequestKV] = {}

    @property
    def num_free_blocks(self) -> int:
        """Blocks free now, without evicting anything."""
        return self._allocator.num_free

    def prompt(self, group: int) -> PromptKV | None:
        """The group's prompt, if held."""
        return self._prompts.get(group)

    def request(self, request_id: RequestId) -> RequestKV | None:
        """The request's KV, if held."""
        return self._requests.get(request_id)

    def admit(self, request_id: RequestId, num_prompt: int, tokens: list[int]) -> RequestKV | None:
        """Make a request ready to run: blocks for all of `tokens`, its prompt's included.

        Returns None, with nothing changed, when idle objects do not free enough room. KV that was
        held counts only as far as it was written for the very same tokens.
        """
        prompt = self._prompts.get(request_id.group)
        held = self._requests.get(request_id)
        missing = self._ceil(len(tokens)) - (num_prompt - 1) // self._block_tokens
        missing -= len(held.blocks) if held else 0
        missing += 0 if prompt else self._ceil(num_prompt - 1)
        if not self._make_room_beside(missing, prompt, held, request_id):
            return None
        prompt = prompt or self._add_prompt(request_id.group, tokens[: num_prompt - 1])
        kv = held or self._add_request(request_id, prompt)
        kv.filled = min(kv.filled, _common_prefix(kv.token_ids, tokens), len(tokens) - 1)
        kv.token_ids = tokens
        kv.is_running = True
        self.grow(kv, len(tokens))
        return kv

    def copy_block(self, source: int, target: int) -> None:
        """Copy the KV of one block over another."""
        self._memory.copy_block(source, target)

    def grow(self, kv: RequestKV, num_tokens: int) -> bool:
        """Allocate own blocks for `num_tokens` tokens in all; False when there is no room."""
        own = self._ceil(num_tokens) - kv.prompt.num_tokens // self._block_tokens
        missing = own - len(kv.blocks)
        if missing <= 0:
            return True
        if not self._make_room(missing):
            return False
        kv.blocks += self._allocator.allocate(missing)
        return True

    def spare_tokens(self, kv: RequestKV) -> int:
        """Tokens that `kv` could cover with its own blocks and those that are free now."""
        shared = kv.prompt.num_tokens // self._block_tokens
        return (shared + len(kv.blocks) + self._allocator.num_free) * self._block_tokens

    def moves_to_front(
        self, kv: RequestKV, first_slot: int, nodes: Sequence[int]
    ) -> list[TokenMove]:
        """How the KV of a draft's `nodes`, which starts at `first_slot`, gets to its first slots.

        In this order no move overwrites what a later one reads, as nodes ascend.
        """
        table = kv.table(self._block_tokens)

        def place(slot: int) -> tuple[int, int]:
            return table[slot // self._block_tokens], slot % self._block_tokens

        return [
            TokenMove(*place(first_slot + node), *place(first_slot + i))
            for i, node in enumerate(nodes)
            if node != i
        ]

    def shrink(self, kv: RequestKV) -> None:
        """Free own blocks behind what is filled: KV of tokens that were not kept."""
        own = self._ceil(kv.filled) - kv.prompt.num_tokens // self._block_tokens
        self._allocator.free(kv.blocks[own:])
        del kv.blocks[own:]

    def give_back(self, kv: RequestKV) -> None:
        """Free the blocks behind what is kept."""
        if kv.kept is not None and kv.blocks:
            kv.filled = min(kv.filled, kv.kept)
            self.shrink(kv)

    def drop(self, key: KVKey) -> None:
        """Free an object (a prompt in use: when its last user has gone). Ignores unknown keys."""
        if key.member is not None:
            kv = self._requests.get(RequestId(key.group, key.member))
            if kv is not None and not kv.is_running:
                self.drop_request(kv)
            return
        prompt = self._prompts.get(key.group)
        if prompt is not None:
            prompt.doomed = True
            self._free_if_doomed(prompt)

    def drop_request(self, kv: RequestKV) -> None:
        """Free a request's own blocks, and its prompt if that only waited for it."""
        member = kv.key.member
        assert member is not None  # noqa: S101 - request keys name a member
        request_id = RequestId(kv.key.group, member)
        self._allocator.free(kv.blocks)
        kv.blocks = []
        del self._requests[request_id]
        kv.prompt.users.discard(request_id)
        self._free_if_doomed(kv.prompt)

    def clear(self) -> None:
        """Free everything."""
        for kv in list(self._requests.values()):
            self.drop_request(kv)
        for prompt in list(self._prompts.values()):
            self._free_prompt(prompt)

    def check_integrity(self) -> None:
        """Raise AssertionError unless every block is free or held exactly once."""
        held = [b for p in self._prompts.values() for b in p.blocks]
        held += [b for kv in self._requests.values() for b in kv.blocks]
        assert len(held) == len(set(held)), "a block is held twice"  # noqa: S101
        total = len(held) + self._allocator.num_free
        assert total == self._allocator.num_blocks, "blocks were lost"  # noqa: S101

    def _make_room_beside(
        self, count: int, prompt: PromptKV | None, held: RequestKV | None, request_id: RequestId
    ) -> bool:
        """Make room without evicting the request's own objects."""
        was_user = prompt is not None and request_id in prompt.users
        if prompt is not None:
            prompt.users.add(request_id)
        if held is not None:
            held.is_running = True
        if self._make_room(count):
            return True
        if prompt is not None and not was_user:
            prompt.users.discard(request_id)
        if held is not None:
            held.is_running = False
        return False

    def _make_room(self, count: int) -> bool:
        """Free what is kept for nobody, then idle objects, oldest first, until `count` blocks are.

        False if too few.
        """
        if self._allocator.can_allocate(count):
            return True
        for kv in self._requests.values():
            self.give_back(kv)
        if self._allocator.can_allocate(count):
            return True
        for kv in [kv for kv in self._requests.values() if not kv.is_running]:
            self.drop_request(kv)
            if self._allocator.can_allocate(count):
                return True
        for prompt in [p for p in self._prompts.values() if not p.users]:
            self._free_prompt(prompt)
            if self._allocator.can_allocate(count):
                return True
        return False

    def _add_prompt(self, group: int, tokens: list[int]) -> PromptKV:
        blocks = self._allocator.allocate(self._ceil(len(tokens)))
        prompt = PromptKV(KVKey(group), tokens, blocks)
        self._prompts[group] = prompt
        return prompt

    def _add_request(self, request_id: RequestId, prompt: PromptKV) -> RequestKV:
        kv = RequestKV(KVKey(request_id.group, request_id.member), prompt, [], [])
        self._requests[request_id] = kv
        prompt.users.add(request_id)
        return kv

    def _free_if_doomed(self, prompt: PromptKV) -> None:
        if prompt.doomed and not prompt.users:
            self._free_prompt(prompt)

    def _free_prompt(self, prompt: PromptKV) -> None:
        self._allocator.free(prompt.blocks)
        del self._prompts[prompt.key.group]

    def _ceil(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_tokens)


def _common_prefix(a: list[int], b: list[int]) -> int:
    """Length of the longest common prefix."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    return next(i for i in range(shorter) if a[i] != b[i])
