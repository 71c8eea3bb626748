"""The step loop under random chunks, aborts, moves and lack of memory, over the scripted model.

The model refuses wrong KV, so a step that goes through is a step on the right KV.
"""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import ScriptedModel, scripted_output
from seer.engines.serving.step_loop import StepLoop, StepOutput
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.types import (
    Chunk,
    ChunkEnd,
    DropKV,
    ExportKV,
    KVKey,
    PoolEntry,
    RequestId,
    SamplingParams,
    Tier,
)

SPEC = ScriptedSpec(
    block_size=4,
    num_blocks=24,
    max_running_requests=3,
    prefill_tokens_per_step=6,
    min_length=2,
    max_length=40,
)
PROMPT_TOKENS = (1, 2, 7, 13)
"""Prompt length of each group: no KV, less than a block, more, exactly three blocks."""
MEMBERS = 3
NUM_LOOPS = 2
SLOTS_PER_OBJECT = 16


@dataclass(slots=True)
class _Request:
    """What the test knows of a request."""

    expected: list[int]
    output: list[int] = field(default_factory=list)
    loop: int | None = None
    """Where its chunk is in flight."""
    num_chunks: int = 0
    entry: PoolEntry | None = None


class StepLoopMachine(RuleBasedStateMachine):
    """Two instances and a pool; every request has a known text."""

    @initialize()
    def start(self) -> None:
        """Fresh instances."""
        info = SPEC.describe()
        num_slots = (len(PROMPT_TOKENS) * (MEMBERS + 1)) * SLOTS_PER_OBJECT
        self.pool = PoolOwner.create(
            PoolConfig(host_bytes=num_slots * (info.block_bytes + 128)), info.block_bytes
        )
        self.loops = [
            StepLoop(
                ScriptedModel(SPEC.shape, SPEC.tokenizer().decode),
                info,
                SPEC.prefill_tokens_per_step,
                self.pool.address,
            )
            for _ in range(NUM_LOOPS)
        ]
        self.requests = {
            RequestId(group, member): _Request(scripted_output(SPEC.shape, 1, group, member))
            for group in range(len(PROMPT_TOKENS))
            for member in range(MEMBERS)
        }
        self.prompts: dict[int, PoolEntry] = {}

    @rule(
        group=st.integers(0, len(PROMPT_TOKENS) - 1),
        member=st.integers(0, MEMBERS - 1),
        loop=st.integers(0, NUM_LOOPS - 1),
        max_tokens=st.integers(1, 20),
        keep_kv=st.booleans(),
    )
    def run_chunk(
        self, group: int, member: int, loop: int, max_tokens: int, *, keep_kv: bool
    ) -> None:
        """Queue the request's next chunk, with whatever the pool has of it."""
        request = self.requests[RequestId(group, member)]
        if request.loop is not None or len(request.output) == len(request.expected):
            return
        loads = [e for e in (self.prompts.get(group), request.entry) if e is not None]
        chunk = Chunk(
            request_id=RequestId(group, member),
            chunk_index=request.num_chunks,
            sampling_group=group,
            prompt_token_ids=[3 + group] * PROMPT_TOKENS[group],
            output_token_ids=list(request.output),
            sampling=SamplingParams(seed=1),
            max_tokens=max_tokens,
            keep_kv=keep_kv,
            loads=tuple(loads),
        )
        request.loop, request.num_chunks = loop, request.num_chunks + 1
        self.loops[loop].start(chunk)

    @rule(loop=st.integers(0, NUM_LOOPS - 1), count=st.integers(1, 12))
    def step(self, loop: int, count: int) -> None:
        """A few steps of one instance."""
        for _ in range(count):
            if self.loops[loop].has_work:
                self._take(self.loops[loop].step())

    @rule(group=st.integers(0, len(PROMPT_TOKENS) - 1), member=st.integers(0, MEMBERS - 1))
    def abort(self, group: int, member: int) -> None:
        """Cut a chunk short, wherever it stands."""
        request = self.requests[RequestId(group, member)]
        if request.loop is not None:
            self._take(self.loops[request.loop].abort(RequestId(group, member)))
            assert request.loop is None

    @rule(
        group=st.integers(0, len(PROMPT_TOKENS) - 1),
        member=st.none() | st.integers(0, MEMBERS - 1),
        loop=st.integers(0, NUM_LOOPS - 1),
    )
    def drop(self, group: int, member: int | None, loop: int) -> None:
        """Drop an object, in use or not, held or not."""
        self.loops[loop].move(DropKV(key=KVKey(group, member)))

    @rule(
        group=st.integers(0, len(PROMPT_TOKENS) - 1),
        member=st.none() | st.integers(0, MEMBERS - 1),
        loop=st.integers(0, NUM_LOOPS - 1),
    )
    def export(self, group: int, member: int | None, loop: int) -> None:
        """Export an object that may be there; a failed one leaves the pool's copy in doubt."""
        covered = self._covered(group, member)
        shared = 0 if member is None else (PROMPT_TOKENS[group] - 1) // SPEC.block_size
        count = -(-covered // SPEC.block_size) - shared
        place = group * (MEMBERS + 1) + (0 if member is None else 1 + member)
        first = place * SLOTS_PER_OBJECT
        slots = tuple(range(first, first + max(count, 0)))
        moved = self.loops[loop].move(ExportKV(key=KVKey(group, member), slots=slots))
        if not moved.ok:
            return
        assert moved.num_tokens <= covered
        entry = PoolEntry(key=moved.key, tier=Tier.HOST, slots=slots, num_tokens=moved.num_tokens)
        if member is None:
            self.prompts[group] = entry
        else:
            self.requests[RequestId(group, member)].entry = entry

    @precondition(lambda self: bool(self.prompts))
    @rule(slot=st.integers(0, SLOTS_PER_OBJECT * len(PROMPT_TOKENS) * (MEMBERS + 1) - 1))
    def corrupt(self, slot: int) -> None:
        """Spoil a slot: whoever reads it must notice."""
        size = (SPEC.describe().block_bytes + 127) // 64 * 64
        with open(self.pool.address.host_path, "r+b") as file:  # noqa: PTH123
            file.seek(slot * size + size // 2)
            file.write(b"spoiled!")

    @invariant()
    def blocks_add_up(self) -> None:
        """Every block is free or held once."""
        for loop in getattr(self, "loops", ()):
            loop._objects.check_integrity()

    def teardown(self) -> None:
        """Everything in flight ends with the text that was foretold."""
        if not hasattr(self, "loops"):
            return
        for loop in self.loops:
            while loop.has_work:
                self._take(loop.step())
            loop.close()
        assert all(request.loop is None for request in self.requests.values())
        self.pool.close()

    def _covered(self, group: int, member: int | None) -> int:
        if member is None:
            return PROMPT_TOKENS[group] - 1
        return PROMPT_TOKENS[group] + len(self.requests[RequestId(group, member)].output) - 1

    def _take(self, output: StepOutput) -> None:
        for result in output.results:
            request = self.requests[result.request_id]
            request.output += result.token_ids
            request.loop = None
            assert request.output == request.expected[: len(request.output)]
            is_complete = len(request.output) == len(request.expected)
            assert (result.end is ChunkEnd.STOP) == is_complete


TestStepLoop = StepLoopMachine.TestCase
TestStepLoop.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
