"""One simulated instance: what it holds, computes and reports.

Two ways of admitting, as the engines do. Under a divided policy every chunk fits (the controller
has reserved its blocks) and starts when its KV is there. Under a static policy requests queue first
come first served; they grow block by block, and when the memory is full the newest is preempted,
goes to the head of the queue and is computed again when it is admitted next.

Blocks are counted in tokens: every request takes half a block more than its tokens, the mean of
what its last block leaves unused; a prompt counts once for all members that run.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from msgspec.structs import replace

from seer.costmodel.step_time import StepTime
from seer.rollout.events import ChunkFinished, StartChunk
from seer.simulator.decode_batch import DecodeBatch
from seer.simulator.speculation import Speculation
from seer.simulator.workload import Workload
from seer.types import ChunkEnd, ChunkStats, EngineInfo, InstanceLoad, KVKey, RequestId

WATERMARK = 0.01
"""Share of the blocks that a static instance keeps free when it admits, as vLLM does."""


@dataclass(slots=True)
class SimulatedChunk:
    """A chunk on its instance."""

    start: StartChunk
    num_prompt: int
    num_before: int
    """Output tokens of earlier chunks."""
    num_tokens: int
    """Tokens that it will generate."""
    end: ChunkEnd
    num_done: float = 0.0
    """Tokens generated up to its last preemption."""
    stats: ChunkStats = field(default_factory=ChunkStats)

    @property
    def private_tokens(self) -> float:
        """Tokens of KV besides the prompt when it is (re)admitted."""
        return self.num_before + self.num_done


class SimulatedInstance:
    """Chunks and KV objects of one instance."""

    def __init__(
        self,
        instance_id: int,
        info: EngineInfo,
        workload: Workload,
        step_time: StepTime,
        speculation: Speculation | None,
        *,
        reserves: bool,
        slowdown: float = 1.0,
    ) -> None:
        self.instance_id = instance_id
        self.batch = DecodeBatch(step_time, speculation, slowdown)
        self.version = 0
        """Grows with every change of the batch, so that outdated ends can be told."""
        self._info = info
        self._workload = workload
        self._step_time = step_time
        self._reserves = reserves
        self._chunks: dict[RequestId, SimulatedChunk] = {}
        self._queue: deque[RequestId] = deque()
        self._held: dict[KVKey, int] = {}
        """KV objects here, with the tokens that they cover."""
        self._running_members: Counter[int] = Counter()
        self._shared_tokens = 0
        """Prompt tokens that members beyond the first use without holding them anew."""
        self._context_at_join: dict[RequestId, float] = {}

    @property
    def chunks(self) -> dict[RequestId, SimulatedChunk]:
        """Chunks in flight, queued ones included."""
        return self._chunks

    @property
    def used_tokens(self) -> float:
        """KV tokens of what runs, with unused parts of blocks."""
        waste = len(self.batch) * self._info.block_size / 2
        return self.batch.context_tokens - self._shared_tokens + waste

    def accept(self, chunk: SimulatedChunk, loaded_tokens: int, siblings: int) -> None:
        """A chunk has come, with its KV loaded up to `loaded_tokens`; `batch.now` is the time."""
        request_id = chunk.start.request_id
        self._chunks[request_id] = chunk
        if loaded_tokens:
            chunk.stats = replace(chunk.stats, num_loaded_tokens=loaded_tokens)
        if self._reserves:
            self._run(chunk, loaded_tokens, siblings)
        else:
            self._queue.append(request_id)
            self.admit(siblings_of={request_id: siblings})

    def admit(self, siblings_of: dict[RequestId, int]) -> None:
        """Start queued requests, first come first served, as long as they fit."""
        usable = (1 - WATERMARK) * self._info.kv_capacity_tokens
        while self._queue and len(self.batch) < self._info.max_running_requests:
            chunk = self._chunks[self._queue[0]]
            group = chunk.start.request_id.group
            prompt = 0 if self._running_members[group] else chunk.num_prompt
            needed = chunk.private_tokens + prompt + self._info.block_size
            if len(self.batch) and self.used_tokens + needed > usable:
                return
            self._queue.popleft()
            self._run(chunk, 0, siblings_of.get(chunk.start.request_id, 0))

    def next_event(self) -> float | None:
        """When a chunk ends or memory runs out."""
        pending = self._pending()
        return None if pending is None else pending[0]

    def settle(self, now: float) -> list[ChunkFinished]:
        """What `next_event` has announced for `now`: chunks that end, or a preemption."""
        pending = self._pending()
        assert pending is not None  # noqa: S101 - it was announced
        _, steps, is_full = pending
        self.batch.step_to(now, steps)
        if is_full:
            self._preempt_newest()
            return []
        ended = self.batch.take_ended()
        events = [self._finish(self._chunks[request_id]) for request_id in ended]
        return [replace(event, more=i < len(events) - 1) for i, event in enumerate(events)]

    def progress(self) -> dict[RequestId, int]:
        """Whole tokens that each chunk in flight has generated."""
        return {
            request_id: int(
                chunk.num_done + (self.batch.done(request_id) if request_id in self.batch else 0.0)
            )
            for request_id, chunk in self._chunks.items()
        }

    def drop(self, key: KVKey) -> None:
        """Free a KV object."""
        self._held.pop(key, None)

    def _run(self, chunk: SimulatedChunk, loaded_tokens: int, siblings: int) -> None:
        """Compute what has no KV yet, then decode."""
        request_id = chunk.start.request_id
        self._prefill(chunk, loaded_tokens)
        context = chunk.num_prompt + chunk.private_tokens
        if self._running_members[request_id.group]:
            self._shared_tokens += chunk.num_prompt
        self._running_members[request_id.group] += 1
        self._context_at_join[request_id] = context
        self.batch.add(request_id, chunk.num_tokens - chunk.num_done, context, siblings)
        self._held[KVKey(request_id.group)] = chunk.num_prompt - 1
        self.version += 1

    def _prefill(self, chunk: SimulatedChunk, loaded_tokens: int) -> None:
        request_id = chunk.start.request_id
        prompt_covered = max(self._covered(KVKey(request_id.group)), loaded_tokens)
        prompt = max(0, chunk.num_prompt - 1 - prompt_covered)
        own_covered = max(self._covered(request_id.kv_key), loaded_tokens)
        private = int(chunk.private_tokens)
        own = 0
        if private:
            own = chunk.num_prompt + private - 1 - max(own_covered, chunk.num_prompt - 1)
        if prompt + own:
            before = chunk.num_prompt + private - 1 - prompt - own
            self.batch.stall(self._step_time.prefill_s(prompt + own, before))
        chunk.stats = replace(
            chunk.stats,
            num_prompt_prefilled=chunk.stats.num_prompt_prefilled + prompt,
            num_output_prefilled=chunk.stats.num_output_prefilled + own,
        )

    def _covered(self, key: KVKey) -> int:
        """Tokens that an object here covers; 0: it is not here."""
        return self._held.get(key, 0)

    def _pending(self) -> tuple[float, float, bool] | None:
        """Time, steps and whether memory runs out, of the next thing that happens by itself."""
        end = self.batch.next_end()
        if end is None:
            return None
        time, steps = end
        if not self._reserves and len(self.batch) > 1:
            left = self._info.kv_capacity_tokens - self.used_tokens
            until_full = max(0.0, left) / self.batch.growth
            if until_full < steps:
                return self.batch.time_after(until_full), until_full, True
        return time, steps, False

    def _preempt_newest(self) -> None:
        request_id = self.batch.requests()[-1]
        chunk = self._chunks[request_id]
        chunk.num_done += self._leave(request_id)
        count = chunk.stats.num_preemptions + 1
        chunk.stats = replace(chunk.stats, num_preemptions=count)
        self._held.pop(request_id.kv_key, None)
        self._queue.appendleft(request_id)

    def _finish(self, chunk: SimulatedChunk) -> ChunkFinished:
        request_id = chunk.start.request_id
        self._leave(request_id)
        del self._chunks[request_id]
        if chunk.start.keep_kv and chunk.end is not ChunkEnd.STOP:
            generated = chunk.num_before + chunk.num_tokens
            self._held[request_id.kv_key] = chunk.num_prompt + generated - 1
        else:
            self._held.pop(request_id.kv_key, None)
        return ChunkFinished(
            request_id=request_id,
            chunk_index=chunk.start.chunk_index,
            instance_id=self.instance_id,
            num_tokens=chunk.num_tokens,
            end=chunk.end,
            stats=chunk.stats,
            load=self._load(),
        )

    def _leave(self, request_id: RequestId) -> float:
        """A request leaves the batch; returns its tokens since it joined."""
        self.version += 1
        group = request_id.group
        self._running_members[group] -= 1
        if self._running_members[group]:
            self._shared_tokens -= self._workload.num_prompt_tokens(group)
        else:
            del self._running_members[group]
            if not self._reserves:
                self._held.pop(KVKey(group), None)
        return self.batch.remove(request_id, self._context_at_join.pop(request_id))

    def _load(self) -> InstanceLoad:
        free = int(self._info.kv_capacity_tokens - self.used_tokens)
        return InstanceLoad(
            free_kv_tokens=max(0, free),
            num_running=len(self.batch),
            num_waiting=len(self._queue),
        )
