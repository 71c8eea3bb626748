"""An instance that only counts: which tokens of whom have KV on it, in how many blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from seer.rollout.events import StartChunk
from seer.types import EngineInfo, KVKey, PoolEntry, RequestId
from support.model_pool import ModelPool


def make_info(
    num_blocks: int, *, block_size: int = 4, max_running: int = 8, max_context: int = 10_000
) -> EngineInfo:
    return EngineInfo(
        model="model",
        block_size=block_size,
        num_blocks=num_blocks,
        block_bytes=64,
        max_running_requests=max_running,
        max_context_tokens=max_context,
        vocab_size=100,
    )


@dataclass
class ModelChunk:
    """A chunk in flight, as the instance sees it."""

    start: StartChunk
    num_prompt: int
    num_generated: int
    """Tokens of earlier chunks."""
    num_streamed: int = 0
    is_aborted: bool = False


@dataclass
class ModelInstance:
    """KV of one instance. With `enforces`, more blocks than there are is an error."""

    info: EngineInfo
    enforces: bool
    prompts: dict[int, int] = field(default_factory=dict)
    """Group to tokens covered."""
    ready: set[int] = field(default_factory=set)
    """Groups of which a member has reported tokens."""
    own: dict[RequestId, int] = field(default_factory=dict)
    """Request to tokens covered."""
    chunks: dict[RequestId, ModelChunk] = field(default_factory=dict)
    num_reprefilled: int = 0
    num_prompts_computed: dict[int, int] = field(default_factory=dict)

    def start(self, chunk: ModelChunk, pool: ModelPool) -> None:
        """Take KV from the pool, compute the rest, and reserve the chunk's blocks."""
        request_id = chunk.start.request_id
        assert len(self.chunks) < self.info.max_running_requests or not self.enforces
        self._need_prompt(request_id.group, chunk, pool)
        covered = chunk.num_prompt + chunk.num_generated - 1
        held = self.own.get(request_id, chunk.num_prompt - 1)
        entry = _entry(chunk.start.loads, request_id.kv_key)
        if entry is not None and pool.reads(entry):
            held = max(held, min(entry.num_tokens, covered))
        assert held <= covered
        self.num_reprefilled += covered - held
        self.own[request_id] = covered
        self.chunks[request_id] = chunk
        self.check_capacity()

    def end(self, request_id: RequestId, num_tokens: int, *, is_stopped: bool) -> None:
        """A chunk ends; its KV stays when asked for."""
        chunk = self.chunks.pop(request_id)
        if is_stopped or not chunk.start.keep_kv:
            del self.own[request_id]
        else:
            self.own[request_id] += num_tokens
        if num_tokens:
            self.ready.add(request_id.group)

    def drop(self, key: KVKey) -> None:
        """Free an object, which nobody may use."""
        if key.member is None:
            assert all(r.group != key.group for r in self.own), "members build on it"
            self.prompts.pop(key.group, None)
            self.ready.discard(key.group)
        else:
            assert RequestId(key.group, key.member) not in self.chunks
            self.own.pop(RequestId(key.group, key.member), None)

    def exported_tokens(self, key: KVKey) -> int:
        """Tokens covered by an object that is to be exported."""
        if key.member is None:
            assert key.group in self.ready
            return self.prompts[key.group]
        assert RequestId(key.group, key.member) not in self.chunks
        return self.own[RequestId(key.group, key.member)]

    def num_blocks(self, key: KVKey) -> int:
        """Blocks of an object, counted token by token (slow and plain on purpose)."""
        size = self.info.block_size
        if key.member is None:
            return len({token // size for token in range(self.prompts[key.group])})
        request_id = RequestId(key.group, key.member)
        end = self.own[request_id]
        if request_id in self.chunks:
            end += self.chunks[request_id].start.max_tokens
        first = self.prompts[key.group] // size
        return len({token // size for token in range(end) if token // size >= first})

    def check_capacity(self) -> None:
        """All objects, running chunks at their full length, fit."""
        keys = [KVKey(group) for group in self.prompts] + [r.kv_key for r in self.own]
        used = sum(self.num_blocks(key) for key in keys)
        assert used <= self.info.num_blocks or not self.enforces, f"{used} blocks"

    def _need_prompt(self, group: int, chunk: ModelChunk, pool: ModelPool) -> None:
        if group in self.prompts:
            return
        self.prompts[group] = chunk.num_prompt - 1
        entry = _entry(chunk.start.loads, KVKey(group))
        if chunk.num_prompt > 1 and (entry is None or not pool.reads(entry)):
            computed = self.num_prompts_computed
            computed[group] = computed.get(group, 0) + 1


def _entry(loads: Sequence[PoolEntry], key: KVKey) -> PoolEntry | None:
    return next((entry for entry in loads if entry.key == key), None)
