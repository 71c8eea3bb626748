"""Who holds the KV blocks of one instance.

Owns the counts of an instance: prompts of groups, objects of requests that run there (entered with
the blocks that they have at the end of their chunk, so this is a reservation) and objects of
requests at rest. Invariant: the blocks held by all objects never exceed the instance's. The engine
keeps the bytes; the ledger decides and the engine follows, in order, so entries change at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from seer.kvpool.blocks import Footprint
from seer.types import KVKey, RequestId


@dataclass(slots=True)
class HeldPrompt:
    """A group's prompt on the instance."""

    blocks: int
    num_tokens: int
    """Tokens covered: the prompt less its last one."""
    is_ready: bool = False
    """Known to be computed, so that it can be copied."""
    num_running: int = 0
    """Members with a chunk in flight here."""
    num_resting: int = 0
    """Members whose KV rests here."""


@dataclass(slots=True)
class HeldRequest:
    """A request's own object on the instance."""

    blocks: int
    num_tokens: int
    """Tokens covered when it last came to rest, from the first prompt token; 0 before that."""
    is_running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSize:
    """Size of a KV object that can be copied."""

    blocks: int
    num_tokens: int
    """Tokens covered when it ends, from the first prompt token."""


class InstanceLedger:
    """Blocks of one instance, by object."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._prompts: dict[int, HeldPrompt] = {}
        self._requests: dict[RequestId, HeldRequest] = {}
        self._used_blocks = 0
        self._idle_blocks = 0
        self._num_running = 0

    @property
    def free_blocks(self) -> int:
        """Blocks neither held nor reserved."""
        return self.num_blocks - self._used_blocks

    @property
    def num_running(self) -> int:
        """Chunks in flight on the instance."""
        return self._num_running

    def prompt(self, group: int) -> HeldPrompt | None:
        """The group's prompt, if held. Not to be changed by the caller."""
        return self._prompts.get(group)

    def request(self, request_id: RequestId) -> HeldRequest | None:
        """The request's own object, if held. Not to be changed by the caller."""
        return self._requests.get(request_id)

    def cached_tokens(self, request_id: RequestId) -> int:
        """Tokens of a waiting request whose KV is here, or is being computed by another member."""
        held = self._requests.get(request_id)
        if held is not None:
            return held.num_tokens
        prompt = self._prompts.get(request_id.group)
        return prompt.num_tokens if prompt is not None else 0

    def needed_blocks(self, request_id: RequestId, footprint: Footprint) -> int:
        """Blocks that a chunk with this footprint adds, given what is here."""
        held = self._requests.get(request_id)
        own = footprint.own - (held.blocks if held is not None else 0)
        return own + (0 if request_id.group in self._prompts else footprint.prompt)

    def reclaimable_blocks(self, request_id: RequestId) -> int:
        """Blocks of all that no chunk in flight uses, except what the request itself builds on."""
        blocks = self._idle_blocks
        held = self._requests.get(request_id)
        if held is not None and not held.is_running:
            blocks -= held.blocks
        prompt = self._prompts.get(request_id.group)
        if prompt is not None and not prompt.num_running:
            blocks -= prompt.blocks
        return blocks

    def running_requests(self) -> Iterator[RequestId]:
        """Requests with a chunk in flight here, in the order in which they came."""
        return (id_ for id_, held in self._requests.items() if held.is_running)

    def resting_requests(self) -> Iterator[RequestId]:
        """Requests whose KV rests here, in the order in which they came."""
        return (id_ for id_, held in self._requests.items() if not held.is_running)

    def memberless_prompts(self) -> Iterator[int]:
        """Groups whose prompt takes blocks here and none of whose members is here."""
        prompts = self._prompts.items()
        return (g for g, p in prompts if p.blocks and not p.num_running + p.num_resting)

    def exportable(self, key: KVKey) -> ObjectSize | None:
        """Size of an object; None unless it is here, computed, at rest and not empty."""
        if key.member is None:
            prompt = self._prompts.get(key.group)
            if prompt is None or not prompt.is_ready or not prompt.blocks:
                return None
            return ObjectSize(blocks=prompt.blocks, num_tokens=prompt.num_tokens)
        held = self._requests.get(RequestId(key.group, key.member))
        if held is None or held.is_running or not held.blocks:
            return None
        return ObjectSize(blocks=held.blocks, num_tokens=held.num_tokens)

    def start(self, request_id: RequestId, footprint: Footprint, num_prompt_tokens: int) -> None:
        """Reserve a chunk's blocks, its prompt's included; there must be room."""
        needed = self.needed_blocks(request_id, footprint)
        assert needed <= self.free_blocks, "over-admitted"  # noqa: S101 - the caller asked
        prompt = self._prompts.get(request_id.group)
        if prompt is None:
            prompt = HeldPrompt(footprint.prompt, num_prompt_tokens - 1)
            self._prompts[request_id.group] = prompt
            self._idle_blocks += prompt.blocks
        held = self._requests.pop(request_id, None)
        if held is not None:
            self._leave_rest(held, prompt)
        if prompt.num_running == 0:
            self._idle_blocks -= prompt.blocks
        prompt.num_running += 1
        self._used_blocks += needed
        self._num_running += 1
        num_tokens = held.num_tokens if held is not None else 0
        self._requests[request_id] = HeldRequest(footprint.own, num_tokens, is_running=True)

    def rest(self, request_id: RequestId, num_tokens: int, own_blocks: int) -> None:
        """A chunk ended and its KV stays: `num_tokens` covered, in `own_blocks` blocks."""
        held = self._requests[request_id]
        prompt = self._prompts[request_id.group]
        self._leave_flight(prompt)
        self._used_blocks += own_blocks - held.blocks
        self._idle_blocks += own_blocks
        prompt.num_resting += 1
        prompt.is_ready = True
        held.blocks = own_blocks
        held.num_tokens = num_tokens
        held.is_running = False

    def mark_ready(self, group: int) -> None:
        """A member has generated here: the group's prompt is computed."""
        self._prompts[group].is_ready = True

    def drop_request(self, request_id: RequestId) -> None:
        """Free a request's own object, running or at rest. It must be held."""
        held = self._requests.pop(request_id)
        prompt = self._prompts[request_id.group]
        if held.is_running:
            self._leave_flight(prompt)
        else:
            self._leave_rest(held, prompt)
        self._used_blocks -= held.blocks

    def drop_prompt(self, group: int) -> None:
        """Free a prompt that is held and that no member here builds on."""
        prompt = self._prompts.pop(group)
        assert not prompt.num_running + prompt.num_resting, "in use"  # noqa: S101 - our invariant
        self._used_blocks -= prompt.blocks
        self._idle_blocks -= prompt.blocks

    def check_integrity(self) -> None:
        """Raise AssertionError unless every stored count follows from the objects held."""
        requests = self._requests.values()
        prompts = self._prompts.values()
        used = sum(r.blocks for r in requests) + sum(p.blocks for p in prompts)
        idle = sum(r.blocks for r in requests if not r.is_running)
        idle += sum(p.blocks for p in prompts if not p.num_running)
        running = sum(r.is_running for r in requests)
        counts = (self._used_blocks, self._idle_blocks, self._num_running)
        assert counts == (used, idle, running), "counts differ"  # noqa: S101
        assert used <= self.num_blocks, "over capacity"  # noqa: S101
        assert sum(p.num_running for p in prompts) == running, "prompts differ"  # noqa: S101
        resting = sum(p.num_resting for p in prompts)
        assert resting == len(self._requests) - running, "prompts differ"  # noqa: S101

    def _leave_flight(self, prompt: HeldPrompt) -> None:
        self._num_running -= 1
        prompt.num_running -= 1
        if prompt.num_running == 0:
            self._idle_blocks += prompt.blocks

    def _leave_rest(self, held: HeldRequest, prompt: HeldPrompt) -> None:
        self._idle_blocks -= held.blocks
        prompt.num_resting -= 1
