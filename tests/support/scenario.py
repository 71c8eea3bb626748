"""What a run of the model cluster is made of, and what it comes to."""

from dataclasses import dataclass, field

import msgspec

from seer.rollout.controller_config import ControllerConfig
from seer.rollout.trace import TraceRecord
from seer.types import EngineInfo, FinishReason, GroupSpec, RequestId


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How often things go wrong: chances for each step, and for each copy."""

    lose: float = 0.0
    join: float = 0.0
    cancel: float = 0.0
    stale: float = 0.0
    failed_copy: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What a run is made of."""

    config: ControllerConfig
    info: EngineInfo
    num_instances: int
    groups: tuple[GroupSpec, ...]
    lengths: dict[RequestId, int]
    """Tokens after which a request stops by itself; at or over its limit: never."""
    seed: int
    faults: Faults = Faults()
    late_groups: int = 0
    """Groups, from the end, that are submitted after the others have begun."""
    late_instances: int = 0


@dataclass
class Outcome:
    """What a run came to."""

    records: list[TraceRecord] = field(default_factory=list)
    finished: dict[RequestId, FinishReason] = field(default_factory=dict)
    finished_groups: list[int] = field(default_factory=list)
    num_generated: dict[RequestId, int] = field(default_factory=dict)
    num_reprefilled: int = 0
    max_prompts_computed: int = 0
    """Most often that one prompt was computed on one instance."""
    num_exports: int = 0
    num_loads: int = 0

    def trace(self) -> bytes:
        """The records as they are written to a file."""
        return b"\n".join(msgspec.json.encode(record) for record in self.records)
