"""What a rollout came to, computed from its trace and nothing else.

A *round* is a time in which some group is unfinished; a session that trains between its calls has
several. Times count rounds only, so the pauses between them change no rate.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from seer.rollout.draft_totals import DraftTotals
from seer.rollout.events import (
    ChunkFinished,
    Event,
    FinishGroup,
    FinishRequest,
    GroupsSubmitted,
    InstanceLeft,
    KVExported,
    KVSpilled,
    StartChunk,
    TokensStreamed,
)
from seer.rollout.trace import TraceRecord
from seer.types import GroupSpec, RequestId

TAIL_SHARE = 0.9
"""The tail begins when this part of the requests is finished (the paper's figure 8)."""


class RolloutMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of a rollout, or of all rounds of a session."""

    throughput_tokens_per_s: float
    """Output tokens over total time."""
    total_time_s: float
    """From submission to the last finished group."""
    tail_time_s: float
    """From 90 % to 100 % of the requests finished."""
    output_tokens: int
    """Tokens of finished chunks, and those kept of chunks whose instance was lost."""
    preemptions: int
    reprefilled_tokens: int
    """Positions computed again: output without KV, and prompts more than once an instance."""
    prompt_prefilled_tokens: int
    """Prompt positions computed."""
    kv_bytes_moved: int
    """Bytes exported to the pool, loaded from it, and spilled to disk."""
    mean_running: float
    """Chunks in flight, averaged over total time."""
    num_requests: int
    num_groups: int
    num_chunks: int
    """Chunks that ended on their instance."""
    instances_lost: int
    load_failures: int
    """Pool blocks that were missing, foreign or corrupt."""
    drafted_tokens: int
    """Tokens guessed and verified by speculative decoding."""
    accepted_tokens: int
    """Those among them that became part of a response."""
    acceptance_length: float
    """Tokens a request gained by a decode step, the one beyond its draft (bonus token) included: 1
    without drafting, 0 where no engine counted its steps."""
    acceptance_by_position: tuple[float, ...] = ()
    """Of the drafts that reached the first, second, ... place, the share accepted up to it."""
    draft_time_share: float = 0.0
    """Part of the instances' step time that went into drafting."""


@dataclass(slots=True)
class _Flight:
    """A chunk in flight."""

    chunk_index: int
    instance_id: int
    num_streamed: int = 0


@dataclass(slots=True)
class _Totals:
    """Sums over the records so far."""

    time_s: float = 0.0
    tail_s: float = 0.0
    running_s: float = 0.0
    """Chunks in flight times seconds."""
    output_tokens: int = 0
    preemptions: int = 0
    output_prefilled: int = 0
    prompt_prefilled: int = 0
    prompt_reprefilled: int = 0
    bytes_moved: int = 0
    requests: int = 0
    groups: int = 0
    chunks: int = 0
    lost: int = 0
    load_failures: int = 0
    drafts: DraftTotals = field(default_factory=DraftTotals)


@dataclass(slots=True)
class _Round:
    """The round that goes on."""

    num_requests: int = 0
    finish_times: list[float] = field(default_factory=list)


class MetricsBuilder:
    """Takes in the records of a trace one by one; the result may be asked for at any time."""

    def __init__(self) -> None:
        self._totals = _Totals()
        self._round = _Round()
        self._unfinished: dict[int, GroupSpec] = {}
        self._flights: dict[RequestId, _Flight] = {}
        self._prompt_positions: dict[tuple[int, int], int] = {}
        """(group, instance) to prompt positions computed there."""
        self._last_t = 0.0

    def add(self, record: TraceRecord) -> None:
        """Take in the next record."""
        self._advance(record.t)
        self._take_event(record.event)
        for action in record.actions:
            match action:
                case StartChunk():
                    flight = _Flight(action.chunk_index, action.instance_id)
                    self._flights[action.request_id] = flight
                case FinishRequest():
                    self._round.finish_times.append(record.t)
                case FinishGroup():
                    self._finish_group(action.group_id)

    @property
    def kv_bytes_moved(self) -> int:
        """Bytes of KV moved so far."""
        return self._totals.bytes_moved

    @property
    def drafts(self) -> DraftTotals:
        """What speculative decoding has come to so far."""
        return self._totals.drafts

    def result(self) -> RolloutMetrics:
        """The metrics of the records so far."""
        totals = self._totals
        return RolloutMetrics(
            throughput_tokens_per_s=_ratio(totals.output_tokens, totals.time_s),
            total_time_s=totals.time_s,
            tail_time_s=totals.tail_s + _tail_s(self._round, self._last_t),
            output_tokens=totals.output_tokens,
            preemptions=totals.preemptions,
            reprefilled_tokens=totals.output_prefilled + totals.prompt_reprefilled,
            prompt_prefilled_tokens=totals.prompt_prefilled,
            kv_bytes_moved=totals.bytes_moved,
            mean_running=_ratio(totals.running_s, totals.time_s),
            num_requests=totals.requests,
            num_groups=totals.groups,
            num_chunks=totals.chunks,
            instances_lost=totals.lost,
            load_failures=totals.load_failures,
            drafted_tokens=totals.drafts.drafted,
            accepted_tokens=totals.drafts.accepted,
            acceptance_length=totals.drafts.acceptance_length,
            acceptance_by_position=totals.drafts.acceptance_by_position,
            draft_time_share=totals.drafts.time_share,
        )

    def _advance(self, t: float) -> None:
        elapsed = t - self._last_t
        self._last_t = t
        if self._unfinished:
            self._totals.time_s += elapsed
            self._totals.running_s += elapsed * len(self._flights)

    def _take_event(self, event: Event) -> None:
        match event:
            case GroupsSubmitted():
                self._submit(event)
            case ChunkFinished():
                self._finish_chunk(event)
            case TokensStreamed():
                flight = self._in_flight(event)
                if flight is not None:
                    flight.num_streamed += event.num_tokens
            case InstanceLeft():
                self._lose(event)
            case KVExported() | KVSpilled():
                self._totals.bytes_moved += event.num_bytes

    def _submit(self, event: GroupsSubmitted) -> None:
        self._unfinished.update((group.group_id, group) for group in event.groups)
        count = sum(group.group_size for group in event.groups)
        self._totals.requests += count
        self._totals.groups += len(event.groups)
        self._round.num_requests += count

    def _finish_chunk(self, event: ChunkFinished) -> None:
        if self._in_flight(event) is None:
            return
        del self._flights[event.request_id]
        totals, stats = self._totals, event.stats
        totals.chunks += 1
        totals.output_tokens += event.num_tokens
        totals.preemptions += stats.num_preemptions
        totals.output_prefilled += stats.num_output_prefilled
        totals.bytes_moved += stats.num_loaded_bytes
        totals.load_failures += stats.num_load_failures
        totals.drafts.add(event)
        if stats.num_prompt_prefilled:
            self._count_prompt(event)

    def _count_prompt(self, event: ChunkFinished) -> None:
        """Positions beyond one computation of the prompt on this instance are re-prefill."""
        computed = event.stats.num_prompt_prefilled
        self._totals.prompt_prefilled += computed
        group = self._unfinished[event.request_id.group]
        key = (group.group_id, event.instance_id)
        before = self._prompt_positions.get(key, 0)
        once = group.num_prompt_tokens - 1
        self._totals.prompt_reprefilled += max(before + computed - once, 0) - max(before - once, 0)
        self._prompt_positions[key] = before + computed

    def _in_flight(self, report: ChunkFinished | TokensStreamed) -> _Flight | None:
        """The chunk that a report is about, unless it was lost meanwhile."""
        flight = self._flights.get(report.request_id)
        is_current = flight is not None and flight.chunk_index == report.chunk_index
        return flight if is_current else None

    def _lose(self, event: InstanceLeft) -> None:
        self._totals.lost += not event.on_purpose
        for request_id, flight in list(self._flights.items()):
            if flight.instance_id == event.instance_id:
                self._totals.output_tokens += flight.num_streamed
                del self._flights[request_id]

    def _finish_group(self, group_id: int) -> None:
        del self._unfinished[group_id]
        for key in [key for key in self._prompt_positions if key[0] == group_id]:
            del self._prompt_positions[key]
        if not self._unfinished:
            self._totals.tail_s += _tail_s(self._round, self._last_t)
            self._round = _Round()


def metrics_of(records: Iterable[TraceRecord]) -> RolloutMetrics:
    """The metrics of a whole trace."""
    builder = MetricsBuilder()
    for record in records:
        builder.add(record)
    return builder.result()


def tail_start(num_requests: int, finish_times: Sequence[float]) -> float | None:
    """When 90 % of a round's requests were finished, of the times in order; None: they are not."""
    needed = math.ceil(TAIL_SHARE * num_requests)
    return finish_times[needed - 1] if 0 < needed <= len(finish_times) else None


def _tail_s(the_round: _Round, now: float) -> float:
    """How long the round's tail has lasted; 0 before it begins."""
    start = tail_start(the_round.num_requests, the_round.finish_times)
    return 0.0 if start is None else now - start


def _ratio(amount: float, per: float) -> float:
    return amount / per if per > 0 else 0.0
