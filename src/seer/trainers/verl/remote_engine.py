"""A server of Seer's engine as an engine of the router's rollout: chunks keep their KV there."""

from collections.abc import MutableMapping
from typing import Any

from ray.exceptions import RayActorError

from seer.errors import EngineFailure, InstanceLost
from seer.rollout.engine import OnProgress
from seer.trainers.borrowed.engine import OneVersion
from seer.trainers.verl.servers import Note
from seer.types import (
    Chunk,
    ChunkResult,
    DropKV,
    EngineInfo,
    KVMove,
    KVMoved,
    RequestId,
    WeightUpdate,
)


class RemoteEngine:
    """For one rollout session; weights and memory of the server are verl's business."""

    def __init__(
        self,
        info: EngineInfo,
        instance_id: int,
        handle: Any,
        notes: MutableMapping[RequestId, Note],
        version: OneVersion,
    ) -> None:
        self._info = info
        self._instance_id = instance_id
        self._handle = handle
        self._notes = notes
        self._version = version

    @property
    def info(self) -> EngineInfo:
        """As the server states it."""
        return self._info

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        """Generate one chunk there; `on_progress` is not called.

        Raises InstanceLost when the actor is gone, EngineFailure for other weights than before.
        """
        del on_progress
        result: ChunkResult
        result, global_steps = await self._call(self._handle.run_chunk, chunk)
        self._version.see(None if global_steps is None else str(global_steps))
        self._notes[chunk.request_id].add_chunk(chunk, result, global_steps)
        return result

    async def move_kv(self, move: KVMove) -> KVMoved:
        """Drop KV there; nothing is exported."""
        if not isinstance(move, DropKV):
            return KVMoved(key=move.key, ok=False)
        moved: KVMoved = await self._call(self._handle.move_kv, move)
        return moved

    async def abort(self, request_id: RequestId) -> None:
        """Cut a chunk short."""
        await self._call(self._handle.abort_chunk, request_id)

    async def update_weights(self, update: WeightUpdate) -> None:
        """Not by a rollout: verl's trainer gives weights to the servers. Raises EngineFailure."""
        raise EngineFailure(f"weights {update.version}: verl's trainer updates its servers itself")

    async def close(self) -> None:
        """Let go of the server, which goes on."""

    async def _call(self, method: Any, argument: Any) -> Any:
        try:
            return await method.remote(argument)
        except RayActorError as error:
            why = " ".join(str(error).split())[:200]
            raise InstanceLost(self._instance_id, why) from error
