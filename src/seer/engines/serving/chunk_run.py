"""One chunk in an engine, from its arrival to its end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from seer.engines.serving.draft import ROOT, Draft
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
    drafted_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)

    def count_draft(self, depth: int, num_nodes: int, num_accepted: int) -> None:
        """A draft of `num_nodes` nodes that reached `depth` positions."""
        self.num_drafted += num_nodes
        self.num_accepted += num_accepted
        missing = depth - len(self.drafted_by_position)
        self.drafted_by_position += [0] * missing
        self.accepted_by_position += [0] * missing
        for position in range(depth):
            self.drafted_by_position[position] += 1
            self.accepted_by_position[position] += position < num_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a step came to for a chunk."""

    count: int
    """Tokens appended."""
    accepted: list[int]
    """Nodes of the draft that were right, from the first position on."""
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

    def chunk_so_far(self) -> Chunk:
        """The chunk with what it has generated among the earlier output."""
        return msgspec.structs.replace(
            self.chunk, output_token_ids=self.token_ids[self.num_prompt :]
        )

    def append(self, token_id: int, logprob: float) -> ChunkEnd | None:
        """Take a sampled token; returns why the chunk ends, if it does."""
        self.token_ids.append(token_id)
        self.logprobs.append(logprob)
        if self.stop.stops(self.token_ids, self.num_prompt):
            return ChunkEnd.STOP
        return ChunkEnd.LENGTH if self.num_generated == self.chunk.max_tokens else None

    def take(self, draft: Draft, drawn: Sequence[int], logprobs: Sequence[float]) -> Taken:
        """Append what a step has drawn, one token after the other, as without a draft.

        `drawn[0]` was drawn after the text, `drawn[1 + i]` after node i and its ancestors. So the
        first counts; then, as long as some child guesses the last one right, what was drawn after
        that child; up to the end of the chunk.
        """
        node: int | None = ROOT
        accepted: list[int] = []
        count = 0
        end: ChunkEnd | None = None
        while node is not None and end is None:
            token_id = drawn[1 + node]
            end = self.append(token_id, logprobs[1 + node])
            count += 1
            node = draft.child(node, token_id)
            if node is not None:
                accepted.append(node)
        self.costs.num_decode_steps += 1
        if draft:
            self.costs.count_draft(max(draft.depths), len(draft), len(accepted))
        return Taken(count=count, accepted=accepted, end=end)

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
            stats=msgspec.convert(self.costs, ChunkStats, from_attributes=True),
            load=load,
        )
