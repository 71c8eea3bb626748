"""One chunk in an engine, from its arrival to its end."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from seer.engines.serving.kv_objects import RequestKV
from seer.engines.serving.stopping import StopCheck
from seer.types import Chunk, ChunkEnd, ChunkProgress, ChunkResult, ChunkStats, InstanceLoad

PROGRESS_TOKENS = 16
"""Tokens a progress report collects: what a lost instance may have to generate again."""


@dataclass(slots=True)
class Costs:
    """Running totals behind a ChunkStats: the same fields, while they still change."""

    num_prompt_prefilled: int = 0
    num_output_prefilled: int = 0
    num_preemptions: int = 0
    num_loaded_tokens: int = 0
    num_loaded_bytes: int = 0
    num_load_failures: int = 0
    num_decode_steps: int = 0
    num_drafted: int = 0
    num_accepted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a step came to for a chunk."""

    count: int
    """Tokens appended."""
    end: ChunkEnd | None
    """Why the chunk ends, if it does."""


@dataclass(slots=True)
class ChunkRun:
    """State of a chunk. `kv` is None while it waits for blocks."""

    chunk: Chunk
    stop: StopCheck
    token_ids: list[int]
    """Prompt, earlier output, and what this chunk has generated."""
    kv: RequestKV | None = None
    logprobs: list[float] = field(default_factory=list)
    num_reported: int = 0
    costs: Costs = field(default_factory=Costs)

    @property
    def num_prompt(self) -> int:
        """Prompt tokens."""
        return len(self.chunk.prompt_token_ids)

    @property
    def num_generated(self) -> int:
        """Tokens that this chunk has generated."""
        return len(self.logprobs)

    def append(self, token_id: int, logprob: float) -> ChunkEnd | None:
        """Take a sampled token; returns why the chunk ends, if it does."""
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if self.stop.stops(self.token_ids, self.num_prompt):
            return ChunkEnd.STOP
        return ChunkEnd.LENGTH if self.num_generated == self.chunk.max_tokens else None

    def take(self, draft: Sequence[int], drawn: Sequence[int], logprobs: Sequence[float]) -> Taken:
        """Append what a step has drawn, one token after the other, as without a draft.

        `drawn[i]` was drawn after `draft[:i]`, so it counts as long as the draft has been right:
        up to the first wrong guess, whose place the drawn token takes, or to the end of the chunk.
        """
        end: ChunkEnd | None = None
        count = 0
        for token_id, logprob in zip(drawn, logprobs, strict=True):
            end = self.append(token_id, logprob)
            count += 1
            is_guessed = count <= len(draft) and draft[count - 1] == token_id
            self.costs.num_accepted += is_guessed
            if end is not None or not is_guessed:
                break
        self.costs.num_decode_steps += 1
        self.costs.num_drafted += len(draft)
        return Taken(count=count, end=end)

    def take_progress(self) -> ChunkProgress | None:
        """Tokens not reported yet, once enough have come together."""
        new = self.num_generated - self.num_reported
        if new < PROGRESS_TOKENS:
            return None
        self.num_reported = self.num_generated
        return ChunkProgress(
            request_id=self.chunk.request_id,
            chunk_index=self.chunk.chunk_index,
            token_ids=self.token_ids[-new:],
            logprobs=self.logprobs[-new:],
        )

    def result(self, end: ChunkEnd, load: InstanceLoad) -> ChunkResult:
        """The finished chunk."""
        return ChunkResult(
            request_id=self.chunk.request_id,
            chunk_index=self.chunk.chunk_index,
            token_ids=self.token_ids[len(self.token_ids) - self.num_generated :],
            logprobs=self.logprobs,
            end=end,
            stats=ChunkStats(**asdict(self.costs)),
            load=load,
        )
