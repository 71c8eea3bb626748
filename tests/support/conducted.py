"""Engines that end chunks and copies exactly when and as a recorded trace says."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from seer.engines.scripted import ScriptedTokenizer
from seer.rollout.engine import Engine, InstanceSetup, OnProgress, Tokenizer
from seer.rollout.events import ChunkFinished, Event, KVExported
from seer.types import (
    Chunk,
    ChunkResult,
    EngineInfo,
    ExportKV,
    KVMove,
    KVMoved,
    RequestId,
    WeightUpdate,
)

Key = tuple[object, ...]


@dataclass
class Conductor:
    """Releases one end after the other, as the trace's events come to their turn."""

    events: Sequence[Event]
    waiting: dict[Key, asyncio.Future[Event]] = field(default_factory=dict)

    async def play(self, seen: Sequence[object]) -> None:
        """Release each event once the driver has handled (`seen`) all before it."""
        for place, event in enumerate(self.events):
            if not isinstance(event, ChunkFinished | KVExported):
                continue
            follows = place and getattr(self.events[place - 1], "more", False)
            while not follows and len(seen) < place:  # noqa: ASYNC110 - a list tells nobody
                await asyncio.sleep(0)
            key = key_of(event)
            while key not in self.waiting:  # noqa: ASYNC110 - nor does a dict
                await asyncio.sleep(0)
            self.waiting.pop(key).set_result(event)

    async def wait(self, key: Key) -> Event:
        """The event that ends this chunk or copy."""
        self.waiting[key] = asyncio.get_running_loop().create_future()
        return await self.waiting[key]


def key_of(event: ChunkFinished | KVExported) -> Key:
    """What an event ends."""
    if isinstance(event, ChunkFinished):
        return (event.request_id, event.chunk_index)
    return (event.instance_id, event.key)


@dataclass(frozen=True)
class ConductedSpec:
    """Instances under one conductor."""

    info: EngineInfo
    conductor: Conductor

    def describe(self) -> EngineInfo:
        """As the trace's instances."""
        return self.info

    def tokenizer(self) -> Tokenizer:
        """Any will do."""
        return ScriptedTokenizer(self.info.vocab_size)

    async def launch(self, setup: InstanceSetup) -> Engine:
        """One instance."""
        return ConductedEngine(self.info, self.conductor, setup.instance_id)


@dataclass
class ConductedEngine:
    """One instance."""

    info: EngineInfo
    conductor: Conductor
    instance_id: int

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        """End as the trace says."""
        del on_progress
        event = await self.conductor.wait((chunk.request_id, chunk.chunk_index))
        assert isinstance(event, ChunkFinished)
        return ChunkResult(
            request_id=chunk.request_id,
            chunk_index=chunk.chunk_index,
            token_ids=[0] * event.num_tokens,
            logprobs=[0.0] * event.num_tokens,
            end=event.end,
            stats=event.stats,
            load=event.load,
        )

    async def move_kv(self, move: KVMove) -> KVMoved:
        """Exports end as the trace says, drops at once."""
        if not isinstance(move, ExportKV):
            return KVMoved(key=move.key, ok=True)
        event = await self.conductor.wait((self.instance_id, move.key))
        assert isinstance(event, KVExported)
        return KVMoved(key=move.key, ok=event.ok, num_bytes=event.num_bytes)

    async def abort(self, request_id: RequestId) -> None:
        """Nothing is aborted."""

    async def update_weights(self, update: WeightUpdate) -> None:
        """Nothing is updated."""

    async def close(self) -> None:
        """Nothing is open."""
