"""What a running session shows to Prometheus, by name. Pure."""

import enum
from collections.abc import Sequence

import msgspec

from seer.rollout.results import InstanceProgress, RolloutProgress


class Kind(enum.Enum):
    """How a figure behaves over time."""

    COUNTER = "counter"
    """Only rises within a session; a session that begins starts it anew."""
    GAUGE = "gauge"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure at one moment."""

    name: str
    """As queries have it."""
    kind: Kind
    about: str
    values: dict[str, float]
    """By instance, for the figures of `INSTANCE`; else one value, by the empty string."""


INSTANCE = "instance"
"""The label of figures that each instance has of its own."""


def figures_of(progress: RolloutProgress) -> list[Figure]:
    """All figures of a session."""
    return [*_of_session(progress), *_of_instances(progress.instances)]


def _of_session(now: RolloutProgress) -> list[Figure]:
    return [
        _gauge("seer_elapsed_seconds", "Since the session's first submission.", now.elapsed_s),
        _gauge("seer_requests", "Requests submitted.", now.num_requests),
        _counter("seer_requests_finished_total", "Requests done.", now.num_finished_requests),
        _gauge("seer_groups", "Groups submitted.", now.num_groups),
        _counter("seer_groups_finished_total", "Groups done.", now.num_finished_groups),
        _counter("seer_output_tokens_total", "Tokens generated.", now.num_output_tokens),
        _gauge(
            "seer_tail_seconds",
            "Since nine tenths of the requests were done; 0 before.",
            now.tail_s or 0.0,
        ),
        _counter("seer_preemptions_total", "Requests that an engine stopped.", now.preemptions),
        _counter("seer_drafted_tokens_total", "Guesses verified.", now.drafted_tokens),
        _counter("seer_accepted_tokens_total", "Guesses that were right.", now.accepted_tokens),
        _gauge("seer_acceptance_length", "Tokens a decode step.", now.acceptance_length),
        _counter("seer_kv_moved_bytes_total", "KV to and from the pool.", now.kv_bytes_moved),
        _counter("seer_instances_lost_total", "Instances that died.", now.instances_lost),
    ]


def _of_instances(instances: Sequence[InstanceProgress]) -> list[Figure]:
    def each(name: str, about: str, values: list[float]) -> Figure:
        numbers = [str(instance.instance_id) for instance in instances]
        by_number = dict(zip(numbers, values, strict=True))
        return Figure(name=name, kind=Kind.GAUGE, about=about, values=by_number)

    return [
        each("seer_instance_up", "1 while it is there.", [float(i.is_alive) for i in instances]),
        each(
            "seer_instance_requests_running",
            "Chunks in flight on it.",
            [i.num_in_flight for i in instances],
        ),
        each(
            "seer_instance_kv_used_tokens",
            "Tokens of KV held, as it last said.",
            [i.used_kv_tokens for i in instances],
        ),
        each(
            "seer_instance_kv_capacity_tokens",
            "Tokens of KV that it can hold.",
            [i.kv_capacity_tokens for i in instances],
        ),
    ]


def _gauge(name: str, about: str, value: float) -> Figure:
    return Figure(name=name, kind=Kind.GAUGE, about=about, values={"": value})


def _counter(name: str, about: str, value: float) -> Figure:
    return Figure(name=name, kind=Kind.COUNTER, about=about, values={"": value})
