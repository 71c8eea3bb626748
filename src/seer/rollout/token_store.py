"""The tokens of every request: what a user must never lose.

The controller counts, the driver keeps. Tokens reported by a running chunk are kept at once, so an
instance that dies costs only what it had not reported.
"""

from dataclasses import dataclass, field

from seer.rollout.events import StartChunk
from seer.rollout.prompts import EncodedPrompt
from seer.types import Chunk, ChunkProgress, ChunkResult, FinishReason, RequestId, SamplingParams


@dataclass(slots=True)
class RequestTokens:
    """One request's output."""

    prompt: EncodedPrompt
    sampling: SamplingParams
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    chunk_index: int | None = None
    """The chunk in flight."""
    num_before: int = 0
    """Tokens of earlier chunks."""
    started_s: float | None = None
    finished_s: float = 0.0
    reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class LostChunk:
    """A chunk whose instance died, and how many of its tokens are kept."""

    chunk_index: int
    num_tokens: int


class TokenStore:
    """Tokens by request, from submission until the group is handed over."""

    def __init__(self) -> None:
        self.num_tokens = 0
        """Output tokens of the session, reported ones included."""
        self._requests: dict[RequestId, RequestTokens] = {}

    def add_group(
        self, group_id: int, group_size: int, prompt: EncodedPrompt, sampling: SamplingParams
    ) -> None:
        """Make room for a group."""
        for member in range(group_size):
            self._requests[RequestId(group_id, member)] = RequestTokens(prompt, sampling)

    def take_group(self, group_id: int, group_size: int) -> list[RequestTokens]:
        """Hand a finished group over, by member."""
        return [self._requests.pop(RequestId(group_id, m)) for m in range(group_size)]

    def begin(self, start: StartChunk, weight_version: int, now: float) -> Chunk:
        """The chunk that carries out a StartChunk."""
        request = self._requests[start.request_id]
        request.chunk_index = start.chunk_index
        request.num_before = len(request.token_ids)
        if request.started_s is None:
            request.started_s = now
        return Chunk(
            request_id=start.request_id,
            chunk_index=start.chunk_index,
            sampling_group=request.prompt.sampling_index,
            prompt_token_ids=request.prompt.token_ids,
            output_token_ids=list(request.token_ids),
            sampling=request.sampling,
            max_tokens=start.max_tokens,
            keep_kv=start.keep_kv,
            loads=start.loads,
            weight_version=weight_version,
            is_probe=start.is_probe,
            draft_weight=start.draft_weight,
        )

    def stream(self, progress: ChunkProgress) -> None:
        """Keep reported tokens, unless the chunk is not the one in flight."""
        request = self._requests.get(progress.request_id)
        if request is None or request.chunk_index != progress.chunk_index:
            return
        request.token_ids += progress.token_ids
        request.logprobs += progress.logprobs
        self.num_tokens += len(progress.token_ids)

    def end(self, result: ChunkResult) -> bool:
        """Keep a chunk's tokens, reported ones replaced; False when it is not in flight."""
        request = self._requests.get(result.request_id)
        if request is None or request.chunk_index != result.chunk_index:
            return False
        num_streamed = len(request.token_ids) - request.num_before
        self.num_tokens += len(result.token_ids) - num_streamed
        request.token_ids[request.num_before :] = result.token_ids
        request.logprobs[request.num_before :] = result.logprobs
        request.chunk_index = None
        return True

    def lose(self, request_id: RequestId) -> LostChunk:
        """The chunk in flight is lost; what it reported stays.

        Its last reported token is drawn again: it may have ended the request, which only the
        result would have said.
        """
        request = self._requests[request_id]
        assert request.chunk_index is not None  # noqa: S101 - it was in flight
        lost_index, request.chunk_index = request.chunk_index, None
        kept = max(request.num_before, len(request.token_ids) - 1)
        self.num_tokens -= len(request.token_ids) - kept
        del request.token_ids[kept:]
        del request.logprobs[kept:]
        return LostChunk(lost_index, kept - request.num_before)

    def finish(self, request_id: RequestId, reason: FinishReason, now: float) -> None:
        """Note a request's end."""
        request = self._requests[request_id]
        request.reason = reason
        request.finished_s = now
