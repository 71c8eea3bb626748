"""Cost of a controller decision: CPU time per event, by policy, requests and instances (measured).

    python benchmarks/micro/controller_events.py [--plot docs/img/decision_time.png]

Prints JSON lines. The plot is of the sizes with 16 instances; it needs matplotlib (the extra
`report`).
Instances are made up: each step ends a random chunk in flight, a quarter of them stop. KV is short,
so that heads wait, idle KV leaves and is loaded again.
"""

import argparse
import json
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from seer.rollout.controller import Controller
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.events import (
    Action,
    ChunkFinished,
    Event,
    ExportObject,
    GroupsSubmitted,
    InstanceJoined,
    KVExported,
    StartChunk,
)
from seer.types import ChunkEnd, ChunkStats, EngineInfo, GroupSpec, InstanceLoad

GROUP_SIZE = 8
SIZES = [(2, 1_000), (2, 100_000), (32, 10_000), (32, 100_000), (128, 100_000)]
"""Instances and requests, with the policy `divided`."""
POLICIES = ("divided", "context_aware", "seer")
NUM_INSTANCES = 16
"""Of the sizes that all policies are measured at."""
NUMS_REQUESTS = (1_000, 10_000, 100_000)
NUM_EVENTS = 20_000
INFO = EngineInfo(
    model="made up",
    block_size=16,
    num_blocks=2_000,
    block_bytes=1,
    max_running_requests=64,
    max_context_tokens=100_000,
    vocab_size=1,
)
LOAD = InstanceLoad(free_kv_tokens=0, num_running=0, num_waiting=0)


@dataclass
class Bench:
    """A controller under load."""

    controller: Controller
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    flights: list[StartChunk] = field(default_factory=list)
    exports: list[ExportObject] = field(default_factory=list)
    times_us: list[float] = field(default_factory=list)

    def handle(self, event: Event) -> float:
        """Time one event, in microseconds of CPU, and note what it starts."""
        begin = time.process_time()
        actions = self.controller.handle(event, begin)
        elapsed = (time.process_time() - begin) * 1e6
        self._note(actions)
        return elapsed

    def step(self) -> None:
        """Report the oldest export, or end a random chunk."""
        if self.exports:
            export = self.exports.pop(0)
            event: Event = KVExported(
                instance_id=export.instance_id, key=export.key, ok=True, num_bytes=1
            )
        else:
            event = self._end_chunk()
        self.times_us.append(self.handle(event))

    def _end_chunk(self) -> ChunkFinished:
        place = self.rng.randrange(len(self.flights))
        self.flights[place], self.flights[-1] = self.flights[-1], self.flights[place]
        start = self.flights.pop()
        return ChunkFinished(
            request_id=start.request_id,
            chunk_index=start.chunk_index,
            instance_id=start.instance_id,
            num_tokens=start.max_tokens,
            end=ChunkEnd.STOP if self.rng.random() < 0.25 else ChunkEnd.LENGTH,  # noqa: PLR2004
            stats=ChunkStats(),
            load=LOAD,
        )

    def _note(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case StartChunk():
                    self.flights.append(action)
                case ExportObject():
                    self.exports.append(action)


def measure(policy: str, num_instances: int, num_requests: int) -> dict[str, float | str]:
    """Times of one size."""
    config = ControllerConfig(policy=policy, chunk_size=512, num_host_slots=200_000)
    bench = Bench(Controller(config))
    for instance_id in range(num_instances):
        bench.handle(InstanceJoined(instance_id=instance_id, info=INFO))
    groups = tuple(
        GroupSpec(group_id=group, group_size=GROUP_SIZE, num_prompt_tokens=200, max_tokens=4096)
        for group in range(num_requests // GROUP_SIZE)
    )
    submit_us = bench.handle(GroupsSubmitted(groups=groups))
    while (bench.flights or bench.exports) and len(bench.times_us) < NUM_EVENTS:
        bench.step()
    return {
        "policy": policy,
        "num_instances": num_instances,
        "num_requests": num_requests,
        "num_events": len(bench.times_us),
        "submit_us_per_request": submit_us / num_requests,
        "event_us_mean": statistics.fmean(bench.times_us),
        "event_us_median": statistics.median(bench.times_us),
        "event_us_p99": statistics.quantiles(bench.times_us, n=100)[98],
    }


def plot(means_us: dict[tuple[str, int], float], path: Path) -> None:
    """Mean time of an event over the number of requests, a line a policy."""
    import matplotlib as mpl  # noqa: PLC0415 - an optional extra

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
    for policy in POLICIES:
        means = [means_us[policy, count] for count in NUMS_REQUESTS]
        axis.plot(NUMS_REQUESTS, means, marker="o", label=policy)
    axis.set(xscale="log", ylim=0)
    axis.set(xlabel=f"requests ({NUM_INSTANCES} instances)", ylabel="CPU µs an event, measured")
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path)
    path = parser.parse_args().plot
    means_us: dict[tuple[str, int], float] = {}
    sizes = [(policy, NUM_INSTANCES, count) for policy in POLICIES for count in NUMS_REQUESTS]
    for size in [*sizes, *(("divided", *size) for size in SIZES)]:
        row = measure(*size)
        print(json.dumps(row), flush=True)
        if size in sizes:
            means_us[size[0], size[2]] = float(row["event_us_mean"])
    if path is not None:
        plot(means_us, path)


if __name__ == "__main__":
    main()
