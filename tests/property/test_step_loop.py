"""The step loop under random chunks, aborts, moves and lack of memory, over the scripted model.

The model refuses wrong KV, so a step that goes through is a step on the right KV.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from seer.drafting.config import DraftingConfig
from seer.engines.scripted import ScriptedSpec
from seer.engines.scripted_model import ScriptedModel, scripted_output
from seer.engines.serving.draft import ROOT, Draft, chain
from seer.engines.serving.drafting import Drafter, NoDrafts
from seer.engines.serving.group_drafter import make_drafter
from seer.engines.serving.step_loop import StepLoop, StepOutput
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.kvpool.slots import slot_bytes
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
    num_blocks=16,
    max_running_requests=3,
    prefill_tokens_per_step=6,
    min_length=20,
    max_length=40,
)
PROMPT_TOKENS = (1, 7, 13)
"""Prompt length of each group: no KV, a block and a half, exactly three blocks."""
MEMBERS = 3
NUM_INSTANCES = 2
SLOTS_PER_OBJECT = 16
NUM_PLACES = 8
"""Of slots in the pool, for 12 objects: what an entry names may have been overwritten."""
NUM_ACTS = 120


@dataclass(slots=True)
class _Request:
    """What the test knows of a request."""

    expected: list[int]
    output: list[int] = field(default_factory=list)
    instance: int = 0
    """Where its last chunk ran."""
    is_running: bool = False
    num_chunks: int = 0
    num_steps: int = 0
    """Of its instance since its last chunk came."""

    @property
    def is_idle(self) -> bool:
        """Whether it may get a chunk."""
        return not self.is_running and len(self.output) < len(self.expected)


class WildDrafter:
    """Guesses that are right, partly right, wrong, too long or missing, by chance."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._expected: dict[RequestId, list[int]] = {}
        self._lengths: dict[RequestId, int] = {}

    def begin(self, chunk: Chunk) -> None:
        name = chunk.request_id
        self._expected[name] = scripted_output(SPEC.shape, 1, chunk.sampling_group, name.member)
        self._lengths[name] = len(chunk.output_token_ids)

    def draft(
        self, request_ids: Sequence[RequestId], max_depths: Sequence[int], context_tokens: int
    ) -> list[Draft]:
        assert len(request_ids) == len(max_depths)
        assert context_tokens >= len(request_ids)
        self._drafts = [self._guess(name) for name in request_ids]
        return self._drafts

    def learn(self, num_verified: Sequence[int], accepted: Sequence[Sequence[int]]) -> None:
        for draft, count, nodes in zip(self._drafts, num_verified, accepted, strict=True):
            assert count <= len(draft)
            assert [draft.parents[node] for node in nodes] == [ROOT, *nodes][: len(nodes)]
            assert all(node < count for node in nodes)

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        start = self._lengths[request_id]
        end = self._lengths[request_id] = start + len(token_ids)
        assert list(token_ids) == self._expected[request_id][start:end]

    def end(self, request_id: RequestId) -> None:
        del self._lengths[request_id]

    def close(self) -> None:
        """Nothing is open."""

    def _guess(self, name: RequestId) -> Draft:
        length = self._random.choice([0, 0, 1, 3, 8, 60])
        guess = self._expected[name][self._lengths[name] :][:length]
        guess += [0, 7, 7] * (length // 3)
        if guess and self._random.random() < 0.6:
            guess[self._random.randrange(len(guess))] += 1
        return self._among_others(guess) if self._random.random() < 0.5 else chain(guess)

    def _among_others(self, guess: list[int]) -> Draft:
        """The guess as one path of a tree, other nodes before, beside and behind its own."""
        tokens: list[int] = []
        parents: list[int] = []
        last = ROOT
        for token in guess:
            for _ in range(self._random.choice([0, 0, 1, 2])):
                parents.append(self._random.randrange(ROOT, len(tokens)))
                tokens.append(self._random.choice([0, 7, 2 + token]))
            parents.append(last)
            last = len(tokens)
            tokens.append(token)
        return Draft(tokens, parents)


class Play:
    """Two instances, a pool, and requests whose texts are known."""

    def __init__(self, random: Random, drafters: Sequence[Drafter]) -> None:
        self._random = random
        info = SPEC.describe()
        num_slots = NUM_PLACES * SLOTS_PER_OBJECT
        self._pool = PoolOwner.create(
            PoolConfig(host_bytes=num_slots * slot_bytes(info.block_bytes)), info.block_bytes
        )
        self._loops = [
            StepLoop(
                ScriptedModel(SPEC.shape, SPEC.tokenizer().decode),
                info,
                SPEC.prefill_tokens_per_step,
                self._pool.address,
                drafter,
            )
            for drafter in drafters
        ]
        self._requests = {
            RequestId(group, member): _Request(scripted_output(SPEC.shape, 1, group, member))
            for group in range(len(PROMPT_TOKENS))
            for member in range(MEMBERS)
        }
        self._entries: dict[KVKey, PoolEntry] = {}
        self.seen: Counter[str] = Counter()

    def act(self) -> None:
        """Do something, and check that every block is free or held once."""
        acts = (self._run, self._step, self._abort, self._drop, self._export, self._corrupt)
        self._random.choices(acts, weights=(6, 8, 1, 1, 4, 0.5))[0]()
        for loop in self._loops:
            loop._objects.check_integrity()

    def finish(self) -> None:
        """Let everything in flight end."""
        for loop in self._loops:
            while loop.has_work:
                self._take(loop.step())
            loop.close()
        assert not any(request.is_running for request in self._requests.values())
        self._pool.close()

    def _run(self) -> None:
        """Queue a request's next chunk, with whatever the pool has of it."""
        idle = [name for name, request in self._requests.items() if request.is_idle]
        if not idle:
            return
        name = self._random.choice(idle)
        request = self._requests[name]
        if self._random.random() < 0.5:
            request.instance = self._random.randrange(NUM_INSTANCES)
        request.is_running = True
        request.num_chunks += 1
        keys = (KVKey(name.group), KVKey(name.group, name.member))
        chunk = Chunk(
            request_id=name,
            chunk_index=request.num_chunks - 1,
            sampling_group=name.group,
            prompt_token_ids=list(range(1, 1 + PROMPT_TOKENS[name.group])),
            output_token_ids=list(request.output),
            sampling=SamplingParams(seed=1),
            max_tokens=self._random.choice([1, 3, 8, 15, 40]),
            keep_kv=self._random.random() < 0.8,
            loads=tuple(self._entries[key] for key in keys if key in self._entries),
        )
        request.num_steps = 0
        self._take(self._loops[request.instance].start(chunk))

    def _step(self) -> None:
        """A few steps of one instance."""
        instance = self._random.randrange(NUM_INSTANCES)
        loop = self._loops[instance]
        for _ in range(self._random.choice([1, 3, 10, 20])):
            if loop.has_work:
                for request in self._requests.values():
                    request.num_steps += request.instance == instance
                self._take(loop.step())

    def _abort(self) -> None:
        """Cut a chunk short, wherever it stands."""
        running = [name for name, request in self._requests.items() if request.is_running]
        if running:
            name = self._random.choice(running)
            self._take(self._loops[self._requests[name].instance].abort(name))
            assert not self._requests[name].is_running

    def _drop(self) -> None:
        """Drop an object, in use or not, held or not."""
        self._random.choice(self._loops).move(DropKV(key=self._some_key()))

    def _export(self) -> None:
        """Export an object from somewhere, if it is there and at rest."""
        key = self._some_key()
        slots = self._slots(key)
        moved = self._random.choice(self._loops).move(ExportKV(key=key, slots=slots))
        if moved.ok:
            assert moved.num_tokens <= self._covered(key)
            self._entries[key] = PoolEntry(
                key=key, tier=Tier.HOST, slots=slots, num_tokens=moved.num_tokens
            )

    def _corrupt(self) -> None:
        """Spoil a slot that something was exported to: whoever reads it must notice."""
        slots = [slot for entry in self._entries.values() for slot in entry.slots]
        if not slots:
            return
        size = slot_bytes(SPEC.describe().block_bytes)
        with Path(self._pool.address.host_path).open("r+b") as file:
            file.seek(self._random.choice(slots) * size + size // 2)
            file.write(b"spoiled!")

    def _some_key(self) -> KVKey:
        name = self._random.choice(list(self._requests))
        return KVKey(name.group, self._random.choice([None, name.member]))

    def _covered(self, key: KVKey) -> int:
        """Tokens that the object covers at rest."""
        num_prompt = PROMPT_TOKENS[key.group]
        if key.member is None:
            return num_prompt - 1
        return num_prompt + len(self._requests[RequestId(key.group, key.member)].output) - 1

    def _slots(self, key: KVKey) -> tuple[int, ...]:
        """As many slots as an object needs, from places that objects take from one another."""
        shared = 0 if key.member is None else (PROMPT_TOKENS[key.group] - 1) // SPEC.block_size
        count = max(0, -(-self._covered(key) // SPEC.block_size) - shared)
        place = self._random.randrange(NUM_PLACES)
        return tuple(range(place * SLOTS_PER_OBJECT, place * SLOTS_PER_OBJECT + count))

    def _take(self, output: StepOutput) -> None:
        for result in output.results:
            request = self._requests[result.request_id]
            request.output += result.token_ids
            request.is_running = False
            assert request.output == request.expected[: len(request.output)]
            is_complete = len(request.output) == len(request.expected)
            assert (result.end is ChunkEnd.STOP) == is_complete
            self.seen["preempted"] += result.stats.num_preemptions > 0
            self.seen["loaded"] += result.stats.num_loaded_tokens > 0
            self.seen["refused"] += result.stats.num_load_failures > 0
            self.seen["recomputed"] += result.stats.num_output_prefilled > 0
            stats = result.stats
            self.seen["accepted"] += stats.num_accepted > 0
            self.seen["refused a guess"] += stats.num_accepted < stats.num_drafted
            self.seen["long step"] += stats.num_decode_steps < len(result.token_ids)
            self.seen["ahead"] += stats.num_decode_steps > request.num_steps
            self.seen["done at once"] += request.num_steps == 0 < len(result.token_ids)
            gained = len(result.token_ids)
            assert stats.num_accepted <= gained <= stats.num_accepted + stats.num_decode_steps


MISHAPS = ("preempted", "loaded", "refused", "recomputed")
AHEAD = ("ahead", "done at once")
"""What was generated between two chunks was the later one's, in part or all of it."""
DRAFTED = ("accepted", "refused a guess", "long step")


@pytest.mark.parametrize("drafting", ["off", "wild", "group"])
@pytest.mark.parametrize("seed", range(8))
def test_texts_and_blocks_hold(seed: int, drafting: str) -> None:
    """Whatever happens and is guessed, texts are those foretold, KV is right, no block is lost."""
    seen: Counter[str] = Counter()
    for i in range(8):
        random = Random(1000 * seed + i)
        play = Play(random, [_drafter(drafting, random) for _ in range(NUM_INSTANCES)])
        for _ in range(NUM_ACTS):
            play.act()
        play.finish()
        seen += play.seen
    assert all(seen[what] for what in MISHAPS + AHEAD)
    if drafting != "group":  # there, tokens thrown away are guesses when they are due again
        assert all(seen[what] for what in DRAFTED) == (drafting == "wild")


def _drafter(drafting: str, random: Random) -> Drafter:
    match drafting:
        case "wild":
            return WildDrafter(random)
        case "group":
            return make_drafter(DraftingConfig(budget="fixed:8"), SPEC.vocab_size, None)
        case _:
            return NoDrafts()
