"""Records and traces to make reports of."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from seer.report.timeline import Timeline
from seer.report.timeline_builder import TimelineBuilder
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.trace import TraceRecord, TraceWriter
from seer.types import GroupSpec, RequestId
from support.model_cluster import run
from support.model_instance import make_info
from support.scenario import Faults, Outcome, Scenario

GROUPS, MEMBERS = 6, 4
FAULTS = Faults(lose=0.02, join=0.3, cancel=0.01, stale=0.05, failed_copy=0.1)


def make_config(policy: str = "divided") -> ControllerConfig:
    return ControllerConfig(policy=policy, chunk_size=8, num_host_slots=40)


def make_outcome(policy: str = "divided", seed: int = 0, faults: Faults = FAULTS) -> Outcome:
    """A rollout over model instances; its times are the numbers of its records."""
    dice = random.Random(seed)
    ids = [RequestId(group, member) for group in range(GROUPS) for member in range(MEMBERS)]
    groups = tuple(
        GroupSpec(group_id=g, group_size=MEMBERS, num_prompt_tokens=17, max_tokens=60)
        for g in range(GROUPS)
    )
    scenario = Scenario(
        config=make_config(policy),
        info=make_info(60),
        num_instances=3,
        groups=groups,
        lengths={request_id: dice.randint(5, 70) for request_id in ids},
        seed=seed,
        faults=faults,
        late_groups=2,
    )
    return run(scenario, check=False)


def timeline_of(records: list[TraceRecord], policy: str = "divided") -> Timeline:
    builder = TimelineBuilder(make_config(policy))
    for record in records:
        builder.add(record)
    return builder.result()


def write_trace(path: Path, records: list[TraceRecord], policy: str = "divided") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        writer = TraceWriter(file, make_config(policy))
        for record in records:
            writer.write(record)
    return path


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    return make_outcome


@pytest.fixture
def timeline() -> Callable[..., Timeline]:
    return timeline_of


@pytest.fixture
def trace() -> Callable[..., Path]:
    return write_trace
