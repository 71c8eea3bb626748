"""What draft clients and the draft server say to each other: msgspec structs, no pickle.

An Update has no answer: what it brings is idempotent, and the next Fetch says where the server
stands. So a message that is lost, late or repeated does no harm. Tokens travel as raw int32,
because thousands of Python integers would hold up the engine's thread.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

_TOKEN = np.dtype("<i4")


class GroupKey(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Names a group under one version of the weights: what other weights wrote is another group."""

    group: int
    weight_version: int = 0

    def __str__(self) -> str:
        return f"{self.group}@{self.weight_version}"


class TokenUpdate(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """New output tokens of one request (paper Table 5, `update_cst`)."""

    key: GroupKey
    request: int
    """The member of the group."""
    prev_num_tokens: int
    """Output tokens of the request before these."""
    token_bytes: bytes
    """Tokens as little-endian int32; see `pack_tokens`."""


class GroupHave(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a client has of a group that it serves (paper Table 5, `DraftCacheInfo`)."""

    key: GroupKey
    ttl_s: float
    """Time that the server is to keep the group from now on; it registers an unknown one."""
    lengths: Mapping[int, int]
    """Tokens of each request. This is a client's version of the group: no history is kept, so a
    restarted server can answer as well as any."""


class GroupDelta(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a client lacks of a group, and what the server lacks of it."""

    key: GroupKey
    updates: tuple[TokenUpdate, ...]
    behind: Mapping[int, int]
    """Tokens that the server has of each request of which the client has more."""


class Update(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Client to server: new tokens. No answer."""

    updates: Sequence[TokenUpdate]


class Fetch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Client to server (paper Table 5, `fetch_cst`); answered by Fetched."""

    call: int
    groups: Sequence[GroupHave]


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """Server to client."""

    call: int
    deltas: Sequence[GroupDelta]
    is_complete: bool
    """False: more is waiting than one answer may carry; ask again."""


def pack_tokens(token_ids: NDArray[np.int32]) -> bytes:
    """Tokens as they travel."""
    return token_ids.astype(_TOKEN, copy=False).tobytes()


def unpack_tokens(token_bytes: bytes | bytearray) -> NDArray[np.int32]:
    """Tokens that have travelled, (n,). Raises ValueError on bytes that are no int32."""
    return np.frombuffer(token_bytes, _TOKEN).astype(np.int32, copy=False)


def encode(message: Update | Fetch | Fetched) -> bytes:
    """Bytes of a message."""
    return msgspec.msgpack.encode(message)


def decode_request(data: bytes) -> Update | Fetch:
    """Message of a client. Raises msgspec.DecodeError on anything else."""
    request: Update | Fetch = msgspec.msgpack.decode(data, type=Update | Fetch)
    return request


def decode_fetched(data: bytes) -> Fetched:
    """Message of the server. Raises msgspec.DecodeError on anything else."""
    return msgspec.msgpack.decode(data, type=Fetched)
