"""An engine under test: how to start it, and chunks that fit it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from seer.drafting.config import DraftingConfig
from seer.kvpool.pool import PoolConfig, PoolOwner
from seer.rollout.engine import Engine, EngineSpec, InstanceSetup
from seer.types import (
    Chunk,
    ChunkProgress,
    ChunkResult,
    DropKV,
    EngineInfo,
    KVKey,
    PoolAddress,
    PoolEntry,
    RequestId,
    SamplingParams,
)

SAMPLING = SamplingParams(seed=11, ignore_eos=True, max_tokens=100_000)
"""Nothing but `max_tokens` ends a chunk."""
GREEDY = SamplingParams(temperature=0, ignore_eos=True, max_tokens=100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An engine with 12 to 24 blocks of KV that runs at least four requests at once."""

    spec: EngineSpec
    weights_path: str
    """A directory that `update_weights` takes."""
    drafting: str = "off"
    keyed_draws: bool = True
    """Tokens are Seer's keyed draws, wherever a response is cut. Else each chunk has a seed of its
    own: texts that are cut are the same only greedily."""
    kv_objects: bool = True
    """KV at rest stays, to the token, until it is dropped, and counts as used. Else it is whole
    blocks of a cache that forgets: at most a block is computed again, dropping is a hint, and what
    only the cache holds counts as free."""

    @property
    def info(self) -> EngineInfo:
        """Sizes of the engine."""
        return self.spec.describe()

    @property
    def prompt(self) -> list[int]:
        """A prompt whose KV, without the last token, is one and a half blocks."""
        num_tokens = self.info.block_size + self.info.block_size // 2 + 1
        return [2 + 7 * i % (self.info.vocab_size - 2) for i in range(num_tokens)]

    @property
    def sampling(self) -> SamplingParams:
        """Sampling whose texts do not depend on where they are cut."""
        return SAMPLING if self.keyed_draws else GREEDY

    @property
    def num_tokens(self) -> int:
        """Tokens of a response that takes several blocks, but not many."""
        return 3 * self.info.block_size

    def chunk(
        self,
        member: int,
        *,
        max_tokens: int,
        output: Sequence[int] = (),
        index: int = 0,
        keep_kv: bool = True,
        loads: tuple[PoolEntry, ...] = (),
        sampling: SamplingParams | None = None,
        weight_version: int = 0,
    ) -> Chunk:
        """A chunk of group 3."""
        return Chunk(
            request_id=RequestId(3, member),
            chunk_index=index,
            sampling_group=8,
            prompt_token_ids=self.prompt,
            output_token_ids=list(output),
            sampling=sampling or self.sampling,
            max_tokens=max_tokens,
            keep_kv=keep_kv,
            loads=loads,
            weight_version=weight_version,
        )

    def prompt_blocks(self) -> int:
        """Blocks of the prompt's KV object."""
        return -(-(len(self.prompt) - 1) // self.info.block_size)

    def own_blocks(self, num_generated: int) -> int:
        """Blocks of a request's KV object at rest."""
        size = self.info.block_size
        covered = len(self.prompt) + num_generated - 1
        return -(-covered // size) - (len(self.prompt) - 1) // size

    def free_tokens(self, num_generated: int | None = None) -> int:
        """Free KV tokens when the prompt rests on the instance, and a request with it or None."""
        if not self.kv_objects:
            return self.info.kv_capacity_tokens
        own = 0 if num_generated is None else self.own_blocks(num_generated)
        return (self.info.num_blocks - self.prompt_blocks() - own) * self.info.block_size

    def is_resumed(self, result: ChunkResult) -> bool:
        """Whether a chunk found the KV of those before it."""
        stats = result.stats
        again = stats.num_output_prefilled + stats.num_prompt_prefilled
        return again == 0 if self.kv_objects else again < self.info.block_size


PROMPT_KEY = KVKey(3)


def request_key(member: int) -> KVKey:
    """KV object of one of the subject's requests."""
    return KVKey(3, member)


@asynccontextmanager
async def running(
    subject: Subject, count: int = 1, pool: PoolAddress | None = None
) -> AsyncIterator[list[Engine]]:
    """`count` instances, closed at the end."""
    async with AsyncExitStack() as stack:
        engines = []
        for i in range(count):
            drafting = DraftingConfig(budget=subject.drafting)
            setup = InstanceSetup(instance_id=i, pool=pool, drafting=drafting)
            engine = await subject.spec.launch(setup)
            stack.push_async_callback(engine.close)
            engines.append(engine)
        yield engines


@asynccontextmanager
async def pooled(subject: Subject, count: int) -> AsyncIterator[tuple[PoolOwner, list[Engine]]]:
    """Instances that share a pool of 32 host slots and as many disk slots."""
    size = 32 * (subject.info.block_bytes + 128)
    config = PoolConfig(host_bytes=size, disk_bytes=size)
    owner = PoolOwner.create(config, subject.info.block_bytes)
    try:
        async with running(subject, count, owner.address) as engines:
            yield owner, engines
    finally:
        owner.close()


async def reference(engine: Engine, subject: Subject, member: int, num_tokens: int) -> ChunkResult:
    """A whole response in one chunk; leaves no KV behind."""
    chunk = subject.chunk(member, max_tokens=num_tokens, keep_kv=False)
    result = await engine.run(chunk, ignore)
    await engine.move_kv(DropKV(key=PROMPT_KEY))
    return result


def ignore(_: ChunkProgress) -> None:
    """Progress that nobody wants."""


@dataclass(slots=True)
class Collected:
    """Progress reports, kept."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def __call__(self, progress: ChunkProgress) -> None:
        """Take a report."""
        self.token_ids += progress.token_ids
        self.logprobs += progress.logprobs
