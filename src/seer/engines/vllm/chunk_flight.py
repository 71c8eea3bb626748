"""A chunk in flight in vLLM: what it has generated, and what it cost. Imports no vLLM."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from seer.engines.serving.stopping import StopCheck
from seer.types import (
    Chunk,
    ChunkEnd,
    ChunkProgress,
    ChunkResult,
    ChunkStats,
    InstanceLoad,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """Steps of a chunk that verified guesses."""

    drafted: Sequence[int] = ()
    """Guesses of each such step."""
    accepted: Sequence[int] = ()
    """Right ones among them."""


@dataclass(slots=True, kw_only=True)
class ChunkFlight:
    """Owned by the engine's `run` of the chunk."""

    chunk: Chunk
    stop: StopCheck | None
    """Looks for stop strings; None where there are none: vLLM sees stop tokens itself."""
    is_aborted: bool = False
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    num_cached: int = 0
    """Tokens whose KV vLLM found, in its cache or through a connector."""
    num_preemptions: int = 0
    drafts: Drafted = Drafted()

    def take(self, token_ids: Sequence[int], logprobs: Sequence[float]) -> bool:
        """Append what vLLM reports; returns whether a stop string ends the response in it.

        Tokens after the one that completes the string are dropped.
        """
        if self.stop is None:
            self.token_ids += token_ids
            self.logprobs += logprobs
            return False
        text = [*self.chunk.output_token_ids, *self.token_ids]
        for token_id, logprob in zip(token_ids, logprobs, strict=True):
            text.append(token_id)
            self.token_ids.append(token_id)
            self.logprobs.append(logprob)
            if self.stop.stops(text, 0):
                return True
        return False

    def progress_since(self, num_reported: int) -> ChunkProgress:
        """The tokens after the first `num_reported`."""
        return ChunkProgress(
            request_id=self.chunk.request_id,
            chunk_index=self.chunk.chunk_index,
            token_ids=self.token_ids[num_reported:],
            logprobs=self.logprobs[num_reported:],
        )

    def result(self, end: ChunkEnd, load: InstanceLoad) -> ChunkResult:
        """The finished chunk."""
        return ChunkResult(
            request_id=self.chunk.request_id,
            chunk_index=self.chunk.chunk_index,
            token_ids=self.token_ids,
            logprobs=self.logprobs,
            end=end,
            stats=self._stats(),
            load=load,
        )

    def _stats(self) -> ChunkStats:
        """What it cost. What a preempted chunk computes anew vLLM does not say: it is not in here.

        The last token of the text has no KV when the chunk starts: to feed it is decoding.
        """
        num_prompt = len(self.chunk.prompt_token_ids)
        covered = num_prompt + len(self.chunk.output_token_ids) - 1
        of_prompt = min(num_prompt, covered)
        started = bool(self.token_ids)
        num_accepted = sum(self.drafts.accepted)
        longest = max(self.drafts.drafted, default=0)
        return ChunkStats(
            num_prompt_prefilled=max(0, of_prompt - self.num_cached) * started,
            num_output_prefilled=max(0, covered - max(of_prompt, self.num_cached)) * started,
            num_preemptions=self.num_preemptions,
            num_decode_steps=max(0, len(self.token_ids) - num_accepted),
            num_drafted=sum(self.drafts.drafted),
            num_accepted=num_accepted,
            drafted_by_position=_reached(self.drafts.drafted, longest),
            accepted_by_position=_reached(
                self.drafts.accepted, max(self.drafts.drafted, default=0)
            ),
        )


def _reached(counts: Sequence[int], num_positions: int) -> tuple[int, ...]:
    """How many of `counts` reach the first, second, ... position."""
    return tuple(sum(count > position for count in counts) for position in range(num_positions))
