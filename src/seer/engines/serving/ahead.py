"""Requests that go on past their chunk's end, until the controller has answered.

A request whose chunk has ended by length mostly gets its next one on the same instance, but a step
later: the answer comes while a step is under way. With drafts, and so few steps a chunk, that is
one of ten or fifteen. So the request takes part in that step too. Tokens are drawn by key, so what
it generates meanwhile is what its next chunk would; the chunk takes it over if it comes here, and
else it is thrown away: it costs time, never a token.

Such a run takes free blocks only and gives them up as soon as anything else wants them
(`RequestKV.kept`). For everybody else its request is idle: its KV can be exported, dropped and
evicted as if it had stopped at its chunk's end.
"""

import msgspec

from seer.engines.serving.chunk_run import ChunkRun, Taken
from seer.engines.serving.drafting import Drafter
from seer.engines.serving.kv_objects import KVObjects
from seer.engines.serving.step_plan import Planned, decode_rows
from seer.types import ChunkEnd, RequestId

AHEAD_STEPS = 4
"""How long an answer is waited for: whoever has none by then is probably wanted elsewhere."""


class AheadRuns:
    """Owns the runs between two chunks of their requests."""

    def __init__(self, objects: KVObjects, block_tokens: int, drafter: Drafter) -> None:
        self._objects = objects
        self._block_tokens = block_tokens
        self._drafter = drafter
        self._runs: dict[RequestId, ChunkRun] = {}
        self._ends: dict[RequestId, ChunkEnd] = {}
        """Of runs that have come to their request's end: the next chunk will say so."""

    @property
    def has_work(self) -> bool:
        """Whether a run would take part in a step."""
        return any(self._goes_on(run) for run in self._runs.values())

    def owns(self, run: ChunkRun) -> bool:
        """Whether it is such a run."""
        return self._runs.get(run.chunk.request_id) is run

    def begin(self, run: ChunkRun) -> None:
        """Go on after a chunk that has ended by length and is not its request's last."""
        assert run.kv is not None  # noqa: S101 - it has just run
        so_far = run.chunk_so_far()
        left = so_far.sampling.max_tokens - len(so_far.output_token_ids)
        chunk = msgspec.structs.replace(so_far, max_tokens=left)
        run.kv.kept = run.kv.filled
        self._runs[chunk.request_id] = ChunkRun(
            chunk=chunk, stop=run.stop, token_ids=run.token_ids, kv=run.kv
        )

    def plan(self, most: int) -> list[Planned]:
        """Rows of up to `most` runs; whoever has lost KV, or finds no free block, is cut."""
        planned: list[Planned] = []
        for run in list(self._runs.values()):
            is_whole = self._num_held(run) == len(run.token_ids)
            goes_on = self._goes_on(run) and len(planned) < most
            if not is_whole or (goes_on and not self._has_block(run)):
                self.cut(run.chunk.request_id)
            elif goes_on:
                planned.append(decode_rows(run, self._block_tokens))
        return planned

    def note(self, run: ChunkRun, taken: Taken) -> None:
        """What a step came to for a run."""
        if taken.end is not None:
            self._ends[run.chunk.request_id] = taken.end

    def resume(self, run: ChunkRun) -> ChunkEnd | None:
        """Give the request's new chunk what was generated since the last one; why it ends so.

        All of it or nothing: a chunk shorter than that begins where the last one ended.
        """
        ahead = self._runs.get(run.chunk.request_id)
        if ahead is None:
            return None
        count = ahead.num_generated
        is_whole = self._num_held(ahead) == len(ahead.token_ids)
        is_next = ahead.token_ids[: len(ahead.token_ids) - count] == run.token_ids
        if not is_whole or not is_next or count > run.chunk.max_tokens:
            self.cut(run.chunk.request_id)
            return None
        end = self._ends.get(run.chunk.request_id)
        if end is None and count == run.chunk.max_tokens:
            end = ChunkEnd.LENGTH
        self._forget(ahead)
        run.token_ids, run.logprobs, run.costs = ahead.token_ids, ahead.logprobs, ahead.costs
        if end is not None:
            run.kv = ahead.kv  # whoever goes on gets it when it is admitted
        return end

    def cut(self, request_id: RequestId) -> None:
        """Throw away what was generated since the request's last chunk, if anything was."""
        run = self._runs.get(request_id)
        if run is None:
            return
        assert run.kv is not None  # noqa: S101 - runs have KV from the start
        self._objects.give_back(run.kv)
        self._forget(run)

    def clear(self) -> None:
        """Cut all."""
        for request_id in list(self._runs):
            self.cut(request_id)

    def _goes_on(self, run: ChunkRun) -> bool:
        is_ended = run.chunk.request_id in self._ends
        return not is_ended and run.costs.num_decode_steps < AHEAD_STEPS

    def _has_block(self, run: ChunkRun) -> bool:
        """Whether there is a place for its last token's KV that nobody uses; takes it."""
        kv, num_tokens = run.kv, len(run.token_ids)
        assert kv is not None  # noqa: S101 - runs have KV from the start
        return self._objects.spare_tokens(kv) >= num_tokens and self._objects.grow(kv, num_tokens)

    def _num_held(self, run: ChunkRun) -> int:
        """Of the run's tokens, how many have KV here, or need none as they were drawn last."""
        kv = run.kv
        if kv is None or self._objects.request(run.chunk.request_id) is not kv:
            return 0
        return kv.filled + 1

    def _forget(self, run: ChunkRun) -> None:
        assert run.kv is not None  # noqa: S101 - runs have KV from the start
        run.kv.kept = None
        request_id = run.chunk.request_id
        del self._runs[request_id]
        self._ends.pop(request_id, None)
        self._drafter.end(request_id)
