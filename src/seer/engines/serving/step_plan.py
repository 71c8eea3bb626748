"""Which rows the next step feeds: first-come-first-served admission, chunked prefill, preemption.

Behaves as vLLM's scheduler does: no reservation, blocks are taken one by one as requests grow, and
when they run out the newest running request is preempted and recomputed later. A controller that
admits by KV budget (the divided modes) never lets that happen. Drafts take blocks last, and only
free ones: with and without them the same requests run.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from seer.engines.serving.chunk_run import ChunkRun
from seer.engines.serving.draft import Draft
from seer.engines.serving.kv_objects import KVObjects, PromptKV, RequestKV
from seer.engines.serving.step_model import Rows
from seer.types import RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Rows of one sequence in a step."""

    run: ChunkRun
    rows: Rows
    prompt: PromptKV | None
    """The prompt that the rows fill; None: they are the run's own tokens."""


class StepPlanner:
    """Owns the waiting and the running chunks."""

    def __init__(
        self,
        objects: KVObjects,
        block_tokens: int,
        max_running_requests: int,
        prefill_tokens_per_step: int,
    ) -> None:
        self._objects = objects
        self._block_tokens = block_tokens
        self._max_running = max_running_requests
        self._prefill_tokens = prefill_tokens_per_step
        self._waiting: deque[ChunkRun] = deque()
        self._running: list[ChunkRun] = []

    @property
    def num_waiting(self) -> int:
        """Chunks that hold no blocks to run with."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Chunks that take part in steps."""
        return len(self._running)

    def runs(self) -> Iterator[ChunkRun]:
        """All chunks, running first."""
        yield from self._running
        yield from self._waiting

    def find(self, request_id: RequestId) -> ChunkRun | None:
        """The request's chunk, if it is here."""
        return next((r for r in self.runs() if r.chunk.request_id == request_id), None)

    def add(self, run: ChunkRun) -> None:
        """Queue a chunk."""
        self._waiting.append(run)

    def remove(self, run: ChunkRun) -> None:
        """Forget a chunk that has ended."""
        if run in self._running:
            self._running.remove(run)
        else:
            self._waiting.remove(run)

    def admit(self) -> list[ChunkRun]:
        """Move chunks from the head of the queue to the running set while they fit."""
        admitted = []
        while self._waiting and len(self._running) < self._max_running:
            run = self._waiting[0]
            run.kv = self._objects.admit(run.chunk.request_id, run.num_prompt, run.token_ids)
            if run.kv is None:
                break
            self._running.append(self._waiting.popleft())
            admitted.append(run)
        return admitted

    def plan(self) -> list[Planned]:
        """Rows of the next step, in order of admission."""
        planned: list[Planned] = []
        filling: set[int] = set()
        budget = self._prefill_tokens
        for run in list(self._running):
            if run.kv is None:  # preempted by an older one in this very step
                continue
            prompt = run.kv.prompt
            item: Planned | None
            if not prompt.is_filled:
                if run.chunk.request_id.group in filling or budget == 0:
                    continue
                filling.add(run.chunk.request_id.group)
                item = _prompt_rows(run, prompt, budget)
            else:
                self._start_on_prompt(run.kv)
                item = self._own_rows(run, budget)
                if item is None:
                    continue
            budget -= _prefill_cost(item)
            planned.append(item)
        return planned

    def add_draft(self, item: Planned, draft: Draft) -> Planned:
        """Feed guesses too, as many of them as free blocks hold; for items that sample."""
        kv = item.run.kv
        assert kv is not None  # noqa: S101 - planned runs hold KV
        num_fed = len(item.run.token_ids)
        draft = draft.first(self._objects.spare_tokens(kv) - num_fed)
        if not draft:
            return item
        self._objects.grow(kv, num_fed + len(draft))
        rows = replace(item.rows, blocks=kv.table(self._block_tokens), draft=draft)
        return replace(item, rows=rows)

    def _own_rows(self, run: ChunkRun, budget: int) -> Planned | None:
        """Tokens not fed yet: one when decoding, up to `budget` when KV must be made again."""
        kv = run.kv
        assert kv is not None  # noqa: S101 - only running chunks are planned
        pending = len(run.token_ids) - kv.filled
        count = 1 if pending == 1 else min(pending, budget)
        if count == 0 or not self._grow(run, kv, kv.filled + count):
            return None
        return decode_rows(run, self._block_tokens, count)

    def _grow(self, run: ChunkRun, kv: RequestKV, num_tokens: int) -> bool:
        """Blocks for `num_tokens` tokens, preempting from the newest; False if that is the run."""
        while not self._objects.grow(kv, num_tokens):
            victim = self._running.pop()
            self._preempt(victim)
            if victim is run:
                return False
        return True

    def _preempt(self, run: ChunkRun) -> None:
        """Give up a run's blocks; it is computed again when it is next admitted."""
        assert run.kv is not None  # noqa: S101 - running chunks have KV
        self._objects.drop_request(run.kv)
        run.kv = None
        run.costs.num_preemptions += 1
        self._waiting.appendleft(run)

    def _start_on_prompt(self, kv: RequestKV) -> None:
        """Copy the prompt's partial last block into the request's first own one."""
        if kv.filled >= kv.prompt.num_tokens:
            return
        if kv.prompt.num_tokens % self._block_tokens:
            self._objects.copy_block(kv.prompt.blocks[-1], kv.blocks[0])
        kv.filled = kv.prompt.num_tokens


def decode_rows(run: ChunkRun, block_tokens: int, count: int = 1) -> Planned:
    """The run's next `count` tokens whose KV is not written; blocks for them are there."""
    kv = run.kv
    assert kv is not None  # noqa: S101 - only runs with KV are planned
    end = kv.filled + count
    rows = Rows(
        token_ids=run.token_ids[kv.filled : end],
        first_position=kv.filled,
        blocks=kv.table(block_tokens),
        samples=end == len(run.token_ids),
    )
    return Planned(run=run, rows=rows, prompt=None)


def _prompt_rows(run: ChunkRun, prompt: PromptKV, budget: int) -> Planned:
    end = min(prompt.num_tokens, prompt.filled + budget)
    rows = Rows(
        token_ids=run.token_ids[prompt.filled : end],
        first_position=prompt.filled,
        blocks=prompt.blocks,
        samples=False,
    )
    return Planned(run=run, rows=rows, prompt=prompt)


def _prefill_cost(item: Planned) -> int:
    """Rows that count against the prefill budget: all but a sampled one."""
    return len(item.rows.token_ids) - item.rows.samples
