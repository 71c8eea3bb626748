"""State of requests and groups during a rollout, and the moves that are legal.

The controller owns these objects; nothing here decides.
"""

import enum
from dataclasses import dataclass, field

from seer.kvpool.blocks import covered_tokens
from seer.kvpool.pool_ledger import PoolRecord
from seer.types import ChunkEnd, FinishReason, GroupSpec, RequestId


class RequestStatus(enum.Enum):
    """Where a request is in its life."""

    WAITING = enum.auto()
    """In the request buffer."""
    RUNNING = enum.auto()
    """Its chunk is in flight on an instance."""
    FINISHED = enum.auto()


_LEGAL = {
    RequestStatus.WAITING: (RequestStatus.RUNNING, RequestStatus.FINISHED),
    RequestStatus.RUNNING: (RequestStatus.WAITING, RequestStatus.FINISHED),
    RequestStatus.FINISHED: (),
}


@dataclass(slots=True, kw_only=True)
class Flight:
    """A chunk in flight."""

    chunk_index: int
    instance_id: int
    max_tokens: int
    keep_kv: bool
    loads: tuple[PoolRecord, ...]
    """Pool entries that it reads, pinned as long as it flies."""
    num_streamed: int = 0
    """Tokens reported so far."""


@dataclass(slots=True, kw_only=True)
class RequestState:
    """One request. `flight` is set exactly while it is RUNNING."""

    request_id: RequestId
    num_prompt_tokens: int
    max_tokens: int
    num_generated: int = 0
    """Tokens of ended chunks."""
    num_chunks: int = 0
    """Chunks started so far: the index of the next one."""
    status: RequestStatus = RequestStatus.WAITING
    flight: Flight | None = None

    @property
    def num_covered(self) -> int:
        """Tokens with KV when it is at rest."""
        return covered_tokens(self.num_prompt_tokens, self.num_generated)

    @property
    def is_at_limit(self) -> bool:
        """Whether all tokens that it may have are generated."""
        return self.num_generated >= self.max_tokens

    def take_off(self, flight: Flight) -> None:
        """A chunk starts."""
        self._move(RequestStatus.RUNNING)
        self.flight = flight
        self.num_chunks += 1

    def land(self, num_tokens: int) -> Flight:
        """The chunk is over, with `num_tokens` generated; the request waits again."""
        flight = self.flight
        assert flight is not None  # noqa: S101 - set while RUNNING
        self._move(RequestStatus.WAITING)
        self.flight = None
        self.num_generated += num_tokens
        return flight

    def finish(self) -> None:
        """The request is complete."""
        self._move(RequestStatus.FINISHED)

    def _move(self, status: RequestStatus) -> None:
        assert status in _LEGAL[self.status], f"{self.request_id}: {status}"  # noqa: S101
        self.status = status


@dataclass(slots=True, kw_only=True)
class GroupState:
    """One group with its requests, by member."""

    spec: GroupSpec
    requests: list[RequestState]
    is_cancelled: bool = False
    num_unfinished: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_unfinished = len(self.requests)


def make_group(spec: GroupSpec) -> GroupState:
    """A group at its start."""
    requests = [
        RequestState(
            request_id=RequestId(spec.group_id, member),
            num_prompt_tokens=spec.num_prompt_tokens,
            max_tokens=spec.max_tokens,
        )
        for member in range(spec.group_size)
    ]
    return GroupState(spec=spec, requests=requests)


def finish_reason(
    group: GroupState, request: RequestState, end: ChunkEnd | None
) -> FinishReason | None:
    """Why the request is complete after a chunk (None: lost with its instance), or None.

    A request that came to its own end before an abort reached it ended by itself.
    """
    if end is ChunkEnd.STOP:
        return FinishReason.STOP
    if request.is_at_limit:
        return FinishReason.LENGTH
    return FinishReason.CANCELLED if group.is_cancelled else None
