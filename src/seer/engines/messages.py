"""What a hosted engine and its owner say to each other: tagged msgspec structs, no pickle.

The owner names each call by a number of its own; every call gets exactly one answer. The order of
calls on the connection is the order in which the hosted engine gets them.
"""

import msgspec

from seer.errors import EngineFailure, InstanceLost, InvalidInput, SeerError
from seer.rollout.engine import InstanceSetup
from seer.types import (
    Chunk,
    ChunkProgress,
    ChunkResult,
    EngineInfo,
    KVMove,
    KVMoved,
    RequestId,
    WeightUpdate,
)


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first line on the child's standard input, as JSON: what to host, and where to report."""

    address: str
    """ZeroMQ endpoint of the owner."""
    spec_class: str
    """`module:QualifiedName` of the hosted engine's spec."""
    spec: msgspec.Raw
    """The spec itself, as JSON."""
    setup: InstanceSetup
    heartbeat_s: float
    """Time between heartbeats."""


# ---------------------------------------------------------------- owner to child


class RunChunk(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`Engine.run`; answered by ChunkDone, after any number of Progress."""

    call: int
    chunk: Chunk


class MoveKV(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`Engine.move_kv`; answered by KVDone."""

    call: int
    move: KVMove


class AbortRequest(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`Engine.abort`; answered by CallDone."""

    call: int
    request_id: RequestId


class UpdateWeights(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`Engine.update_weights`; answered by CallDone."""

    call: int
    update: WeightUpdate


class Close(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`Engine.close`; answered by the end of the process."""


Call = RunChunk | MoveKV | AbortRequest | UpdateWeights
Command = Call | Close

# ---------------------------------------------------------------- child to owner


class InvalidInputError(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An InvalidInput on its way; a value that msgpack cannot carry travels as its repr."""

    field: str
    value: object
    allowed: str


class FailureError(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An EngineFailure on its way."""

    why: str


class LostError(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An InstanceLost on its way: the hosted engine has lost what it stands on, or is closed."""

    instance_id: int
    why: str


RemoteError = InvalidInputError | FailureError | LostError


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The hosted engine is up."""

    info: EngineInfo


class LaunchFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The hosted engine did not come up; the process ends."""

    error: RemoteError


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The child's event loop is alive."""


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tokens of a running chunk."""

    call: int
    progress: ChunkProgress


class ChunkDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A chunk has ended."""

    call: int
    result: ChunkResult


class KVDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A KV move is done."""

    call: int
    moved: KVMoved


class CallDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A call without a result is done."""

    call: int


class CallFailed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A call has raised."""

    call: int
    error: RemoteError


Answer = ChunkDone | KVDone | CallDone | CallFailed
Report = Ready | LaunchFailed | Heartbeat | Progress | Answer


def encode(message: Command | Report) -> bytes:
    """Bytes of a message."""
    return msgspec.msgpack.encode(message, enc_hook=repr)


def decode_command(data: bytes) -> Command:
    """Message of the owner. Raises msgspec.ValidationError on anything else."""
    command: Command = msgspec.msgpack.decode(data, type=Command)
    return command


def decode_report(data: bytes) -> Report:
    """Message of the child. Raises msgspec.ValidationError on anything else."""
    report: Report = msgspec.msgpack.decode(data, type=Report)
    return report


def pack_error(error: SeerError) -> RemoteError:
    """An error as a message; kinds that engines do not raise become failures."""
    match error:
        case InvalidInput():
            return InvalidInputError(field=error.field, value=error.value, allowed=error.allowed)
        case InstanceLost():
            return LostError(instance_id=error.instance_id, why=error.why)
        case _:
            return FailureError(why=str(error))


def unpack_error(error: RemoteError) -> SeerError:
    """The error that a message carries."""
    match error:
        case InvalidInputError():
            return InvalidInput(error.field, error.value, error.allowed)
        case LostError():
            return InstanceLost(error.instance_id, error.why)
        case FailureError():
            return EngineFailure(error.why)
