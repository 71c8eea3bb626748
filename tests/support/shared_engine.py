"""One engine for many checks, where an engine takes long to start."""

from seer.rollout.engine import Engine, EngineSpec, InstanceSetup, OnProgress, Tokenizer
from seer.types import (
    Chunk,
    ChunkResult,
    EngineInfo,
    KVMove,
    KVMoved,
    RequestId,
    WeightUpdate,
)


class SharedSpec:
    """Launches nothing: hands out one running engine, which outlives the checks."""

    def __init__(self, spec: EngineSpec, engine: Engine) -> None:
        self._spec = spec
        self._engine = engine

    def describe(self) -> EngineInfo:
        """Sizes and limits."""
        return self._spec.describe()

    def tokenizer(self) -> Tokenizer:
        """The spec's own."""
        return self._spec.tokenizer()

    async def launch(self, setup: InstanceSetup) -> Engine:
        """The engine that runs already."""
        del setup
        return _Borrowed(self._engine)


class _Borrowed:
    """The engine, but for its end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        return await self._engine.run(chunk, on_progress)

    async def move_kv(self, move: KVMove) -> KVMoved:
        return await self._engine.move_kv(move)

    async def abort(self, request_id: RequestId) -> None:
        await self._engine.abort(request_id)

    async def update_weights(self, update: WeightUpdate) -> None:
        await self._engine.update_weights(update)

    async def close(self) -> None:
        pass
