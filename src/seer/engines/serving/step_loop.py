"""What the step thread of an engine does: commands, admission, one step, results.

No thread, queue or asyncio here: `StepEngine` calls `start`, `abort`, `move`, `update`, `step` from
its one thread and delivers what `step` returns.
"""

from dataclasses import dataclass, field

from seer.drafting.config import MAX_DRAFT_TOKENS
from seer.engines.serving.ahead import AheadRuns
from seer.engines.serving.chunk_run import ChunkRun, Taken
from seer.engines.serving.drafting import Drafter
from seer.engines.serving.kv_objects import KVObjects
from seer.engines.serving.pool_io import PoolIO
from seer.engines.serving.step_clock import StepClock
from seer.engines.serving.step_model import Draws, StepModel, TokenMove
from seer.engines.serving.step_plan import Planned, StepPlanner
from seer.engines.serving.stopping import StopCheck
from seer.errors import EngineFailure
from seer.kvpool.pool import PoolClient
from seer.types import (
    Chunk,
    ChunkEnd,
    ChunkProgress,
    ChunkResult,
    EngineInfo,
    ExportKV,
    InstanceLoad,
    KVMove,
    KVMoved,
    PoolAddress,
    RequestId,
    WeightUpdate,
)


@dataclass(slots=True)
class StepOutput:
    """What a step, or an abort, has to report."""

    progress: list[ChunkProgress] = field(default_factory=list)
    results: list[ChunkResult] = field(default_factory=list)


class StepLoop:
    """State of one instance between steps."""

    def __init__(
        self,
        model: StepModel,
        info: EngineInfo,
        prefill_tokens_per_step: int,
        pool: PoolAddress | None,
        drafter: Drafter,
    ) -> None:
        self._model = model
        self._drafter = drafter
        self._max_context = info.max_context_tokens
        self._pool = PoolClient.open(pool) if pool is not None else None
        self._block_tokens = info.block_size
        self._objects = KVObjects(model.memory, info.block_size)
        self._planner = StepPlanner(
            self._objects, info.block_size, info.max_running_requests, prefill_tokens_per_step
        )
        self._max_running = info.max_running_requests
        self._ahead = AheadRuns(self._objects, info.block_size, drafter)
        self._weight_version = 0
        self._clock = StepClock()
        self._io = self._pool_io()

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self._has_chunks or self._ahead.has_work

    @property
    def _has_chunks(self) -> bool:
        return self._planner.num_running + self._planner.num_waiting > 0

    def start(self, chunk: Chunk) -> StepOutput:
        """Queue a chunk. Raises EngineFailure when it cannot be run at all.

        A chunk whose tokens have all been generated already ends at once.
        """
        if chunk.weight_version != self._weight_version:
            raise EngineFailure(
                f"chunk of {chunk.request_id} wants weights {chunk.weight_version}, "
                f"the engine has {self._weight_version}"
            )
        if self._planner.find(chunk.request_id) is not None:
            raise EngineFailure(f"request {chunk.request_id} has a chunk in flight already")
        stop = StopCheck(chunk.sampling, self._model.eos_token_ids, self._model.decode)
        tokens = chunk.prompt_token_ids + chunk.output_token_ids
        run = ChunkRun(chunk=chunk, stop=stop, token_ids=tokens)
        end = self._ahead.resume(run)
        self._drafter.begin(run.chunk_so_far())
        self._planner.add(run)
        return StepOutput(results=[] if end is None else [self._finish(run, end)])

    def abort(self, request_id: RequestId) -> StepOutput:
        """End the request's chunk now, if it is here."""
        output = StepOutput()
        run = self._planner.find(request_id)
        if run is not None:
            output.results.append(self._finish(run, ChunkEnd.ABORTED))
        self._ahead.cut(request_id)
        return output

    def move(self, move: KVMove) -> KVMoved:
        """Export or drop a KV object."""
        if move.key.member is not None:
            self._ahead.cut(RequestId(move.key.group, move.key.member))
        if not isinstance(move, ExportKV):
            self._objects.drop(move.key)
            return KVMoved(key=move.key, ok=True)
        failed = KVMoved(key=move.key, ok=False)
        if self._io is None:
            return failed
        if move.key.member is None:
            prompt = self._objects.prompt(move.key.group)
            if prompt is None:
                return failed
            return self._io.export_prompt(prompt, move.tier, move.slots)
        request_id = RequestId(move.key.group, move.key.member)
        kv = self._objects.request(request_id)
        if kv is None or self._planner.find(request_id) is not None:
            return failed
        return self._io.export_request(kv, move.tier, move.slots)

    def update(self, update: WeightUpdate) -> None:
        """Replace the weights and drop all KV. Raises EngineFailure when chunks are in flight."""
        if self._has_chunks:
            raise EngineFailure("weights cannot be updated while chunks are in flight")
        self._ahead.clear()
        self._model.load(update.path)
        self._objects.clear()
        self._weight_version = update.version
        self._io = self._pool_io()

    def step(self) -> StepOutput:
        """Admit, feed one batch with drafts, draw tokens, collect what is to be reported."""
        with self._clock.step():
            return self._step()

    def _step(self) -> StepOutput:
        for run in self._planner.admit():
            self._load_kv(run)
        planned = self._planner.plan()
        if not planned and self._has_chunks:
            raise EngineFailure("no chunk in flight fits the KV blocks")
        planned += self._ahead.plan(self._max_running - self._planner.num_running)
        if not planned:
            return StepOutput()
        sampling, others = _split(planned)
        planned = [*others, *self._with_drafts(sampling)]
        draws = self._model.step(planned)
        for item in planned:
            _account(item)
        return self._verify(planned[len(others) :], draws)

    def close(self) -> None:
        """Let go of the pool and the drafter's connections."""
        self._drafter.close()
        if self._pool is not None:
            self._pool.close()

    def _with_drafts(self, sampling: list[Planned]) -> list[Planned]:
        """Add guesses to the requests that sample, once every request has its blocks."""
        runs = [item.run for item in sampling]
        depths = [self._draft_depth(run) for run in runs]
        context = sum(len(run.token_ids) for run in runs)
        with self._clock.drafting():
            drafts = self._drafter.draft([run.chunk.request_id for run in runs], depths, context)
        return [
            self._planner.add_draft(item, draft.within(depth)) if draft else item
            for item, draft, depth in zip(sampling, drafts, depths, strict=True)
        ]

    def _draft_depth(self, run: ChunkRun) -> int:
        """Guesses in a row that could all be kept: one more token is drawn after them."""
        room = self._max_context - len(run.token_ids)
        return max(0, min(MAX_DRAFT_TOKENS, run.chunk.max_tokens - run.num_generated - 1, room))

    def _verify(self, sampling: list[Planned], draws: Draws) -> StepOutput:
        """Keep what was drawn on right guesses only, and what the guesses teach."""
        takings: list[Taken] = []
        moves: list[TokenMove] = []
        start = 0
        for item in sampling:
            end = start + item.rows.num_logits
            taken = item.run.take(
                item.rows.draft, draws.token_ids[start:end], draws.logprobs[start:end]
            )
            start = end
            takings.append(taken)
            moves += self._keep(item, taken)
        if moves:  # before a later step can write to the places that they are read from
            self._model.move_tokens(moves)
        with self._clock.drafting():
            self._teach(sampling, takings)
        output = StepOutput()
        for item, taken in zip(sampling, takings, strict=True):
            self._report(item.run, taken, output)
        return output

    def _teach(self, sampling: list[Planned], takings: list[Taken]) -> None:
        """Tell the drafter what was generated, and which guesses were right."""
        for item, taken in zip(sampling, takings, strict=True):
            run = item.run
            self._drafter.extend(run.chunk.request_id, run.token_ids[-taken.count :])
        num_verified = [len(item.rows.draft) for item in sampling]
        if any(num_verified):
            self._drafter.learn(num_verified, [taken.accepted for taken in takings])

    def _keep(self, item: Planned, taken: Taken) -> list[TokenMove]:
        """Count the KV of right guesses and free the others' blocks; how the former gets there."""
        run, kv = item.run, item.run.kv
        assert kv is not None  # noqa: S101 - planned runs hold KV
        kv.filled = len(run.token_ids) - 1
        if not item.rows.draft:
            return []
        first_slot = kv.filled - (taken.count - 1)
        moves = self._objects.moves_to_front(kv, first_slot, taken.accepted[: taken.count - 1])
        self._objects.shrink(kv)
        return moves

    def _report(self, run: ChunkRun, taken: Taken, output: StepOutput) -> None:
        """What a step came to for a request: its end, or progress when enough has come together."""
        if self._ahead.owns(run):
            self._ahead.note(run, taken)
            return
        if taken.end is not None:
            output.results.append(self._finish(run, taken.end))
            return
        progress = run.take_progress()
        if progress is not None:
            output.progress.append(progress)

    def _finish(self, run: ChunkRun, end: ChunkEnd) -> ChunkResult:
        """Take a chunk out; its KV stays or goes as the chunk says."""
        self._planner.remove(run)
        if run.kv is not None:
            run.kv.is_running = False
        if end is ChunkEnd.LENGTH and run.chunk.keep_kv and self._has_room(run):
            self._ahead.begin(run)
            return run.result(end, self._load())
        self._drafter.end(run.chunk.request_id)
        if run.kv is not None and (end is ChunkEnd.STOP or not run.chunk.keep_kv):
            self._objects.drop_request(run.kv)
        return run.result(end, self._load())

    def _has_room(self, run: ChunkRun) -> bool:
        """Whether the context takes a token more."""
        return len(run.token_ids) < self._max_context

    def _load(self) -> InstanceLoad:
        step_s, draft_s = self._clock.take()
        return InstanceLoad(
            free_kv_tokens=self._objects.num_free_blocks * self._block_tokens,
            num_running=self._planner.num_running,
            num_waiting=self._planner.num_waiting,
            step_s=step_s,
            draft_s=draft_s,
        )

    def _load_kv(self, run: ChunkRun) -> None:
        """Take from the pool what the chunk names and the instance does not hold."""
        if self._io is None or run.kv is None:
            return
        for entry in run.chunk.loads:
            if entry.key == run.kv.prompt.key and run.kv.prompt.filled == 0:
                self._io.load_prompt(run.kv.prompt, entry, run.costs)
            elif entry.key == run.kv.key and run.kv.filled < entry.num_tokens:
                self._io.load_request(run.kv, entry, run.costs)

    def _pool_io(self) -> PoolIO | None:
        if self._pool is None:
            return None
        salt = self._model.salt(self._weight_version)
        return PoolIO(self._pool, self._model.memory, self._block_tokens, salt)


def _account(item: Planned) -> None:
    """Record what the step prefilled: KV coverage, and positions as costs of the run."""
    count = len(item.rows.token_ids)
    if item.prompt is not None:
        item.prompt.filled += count
        item.run.costs.num_prompt_prefilled += count
        return
    assert item.run.kv is not None  # noqa: S101 - planned runs hold KV
    item.run.kv.filled += count
    item.run.costs.num_output_prefilled += count - item.rows.samples


def _split(planned: list[Planned]) -> tuple[list[Planned], list[Planned]]:
    """Those that draw a token, and the others."""
    sampling = [item for item in planned if item.rows.samples]
    return sampling, [item for item in planned if not item.rows.samples]
