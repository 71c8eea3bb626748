"""What the controller is told (events) and what it asks for (actions).

Both drivers speak exactly this: the asyncio driver over engines, the simulator over virtual time.
Order contract for actions: those that name one instance are carried out there in the order given;
a `StartChunk` whose `loads` (or an `ExportKV` whose slots) are still being written or read by an
earlier action waits for it, and the report of that copy comes before any report of the chunk. All
token amounts are counts; no token content passes here.
"""

import msgspec

from seer.types import (
    ChunkEnd,
    ChunkStats,
    EngineInfo,
    FinishReason,
    GroupSpec,
    InstanceLoad,
    KVKey,
    PoolEntry,
    RequestId,
    Tier,
)

# ---------------------------------------------------------------- events


class GroupsSubmitted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """New groups, in the user's order."""

    groups: tuple[GroupSpec, ...]


class GroupCancelled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The user no longer wants this group."""

    group_id: int


class InstanceJoined(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An instance is ready (again, under the same id, after a restart)."""

    instance_id: int
    info: EngineInfo


class InstanceLeft(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An instance is gone: its chunks, and the KV it held, are lost."""

    instance_id: int
    on_purpose: bool = False
    """It was told to leave; otherwise it died."""


class TokensStreamed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tokens of a running chunk have been reported (they survive the instance)."""

    request_id: RequestId
    chunk_index: int
    num_tokens: int
    """Tokens since the last report of this chunk."""


class ChunkFinished(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A chunk ended on its instance."""

    request_id: RequestId
    chunk_index: int
    instance_id: int
    num_tokens: int
    """All tokens of the chunk, streamed ones included."""
    end: ChunkEnd
    stats: ChunkStats
    load: InstanceLoad
    more: bool = False
    """Another ended chunk is reported right behind this one: place waiting requests after that one,
    so that none of them is moved out for another and back a moment later."""


class KVExported(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An `ExportObject` is done (`ok`) or failed."""

    instance_id: int
    key: KVKey
    ok: bool
    num_bytes: int


class KVSpilled(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A `SpillObject` is done (`ok`) or failed."""

    key: KVKey
    ok: bool
    num_bytes: int


class LoadReported(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Load of an instance between chunk results."""

    instance_id: int
    load: InstanceLoad


class Tick(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Time has passed."""


Event = (
    GroupsSubmitted
    | GroupCancelled
    | InstanceJoined
    | InstanceLeft
    | TokensStreamed
    | ChunkFinished
    | KVExported
    | KVSpilled
    | LoadReported
    | Tick
)

# ---------------------------------------------------------------- actions


class StartChunk(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run a chunk: `Engine.run`."""

    instance_id: int
    request_id: RequestId
    chunk_index: int
    max_tokens: int
    keep_kv: bool
    loads: tuple[PoolEntry, ...] = ()
    is_probe: bool = False
    draft_weight: float = 1.0
    """See Chunk."""


class AbortChunk(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Cut a chunk short: `Engine.abort`. Its ChunkFinished still comes."""

    instance_id: int
    request_id: RequestId


class ExportObject(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Copy a KV object from an instance to slots of the pool (the instance keeps it)."""

    instance_id: int
    key: KVKey
    slots: tuple[int, ...]
    tier: Tier = Tier.HOST


class SpillObject(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Copy a pool entry to a lower tier; the slots where it was are free afterwards.

    Two of the three are given: source and target, in this order.
    """

    key: KVKey
    host_slots: tuple[int, ...] = ()
    disk_slots: tuple[int, ...] = ()
    remote_slots: tuple[int, ...] = ()


class DropObject(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Free a KV object on an instance."""

    instance_id: int
    key: KVKey


class FinishRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A request is complete."""

    request_id: RequestId
    reason: FinishReason


class FinishGroup(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All members of a group are complete."""

    group_id: int


Action = (
    StartChunk | AbortChunk | ExportObject | SpillObject | DropObject | FinishRequest | FinishGroup
)
