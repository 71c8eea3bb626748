"""Instances on Ray die by SIGKILL again and again: does every request end once, with its tokens?

    python benchmarks/cluster/kill_soak.py [--requests 20000] [--instances 8] [--period 5]

Scripted instances as Ray actors on this machine. A rollout without kills comes first; in the second
one instance after the other is killed, one every `--period` seconds. Prints a JSON line for each
and one with the verdict; the exit code is 1 unless every request ended exactly once in both and all
tokens are equal. Needs the extra `ray`.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from seer.cluster.ray_cluster import RayCluster
from seer.engines.process import ProcessSpec
from seer.engines.process_engine import ProcessEngine
from seer.engines.scripted import ScriptedSpec
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.events import FinishRequest
from seer.rollout.prompts import PromptItem
from seer.rollout.rollout import Rollout
from seer.rollout.trace import read_trace
from seer.types import SamplingParams

GROUP_SIZE = 8
SPEC = ScriptedSpec(
    num_blocks=1024, max_running_requests=64, min_length=16, max_length=96, step_time_s=0.01
)
SAMPLING = SamplingParams(seed=11, max_tokens=96)
INSTANCE_CPUS = 0.01

Tokens = dict[tuple[str, int], list[int]]


@dataclass
class Killer:
    """Kills one instance after the other."""

    rollout: Rollout
    period_s: float
    num_kills: int = 0

    async def run(self) -> None:
        """Until cancelled. An instance that is not back yet is passed over."""
        while True:
            await asyncio.sleep(self.period_s)
            placed = list(self.rollout._fleet.placed.values())  # noqa: SLF001 - nothing public
            for offset in range(len(placed)):
                engine = placed[(self.num_kills + offset) % len(placed)].engine
                if isinstance(engine, ProcessEngine):
                    os.kill(engine.pid, signal.SIGKILL)
                    self.num_kills += 1
                    break


async def rollout(args: argparse.Namespace, period_s: float | None, trace: Path) -> Tokens:
    """One rollout; prints its line."""
    config = RolloutConfig(
        engine=ProcessSpec(inner=SPEC),
        site=RayCluster(instance_cpus=INSTANCE_CPUS),
        num_instances=args.instances,
        chunk_size=32,
        pool=PoolConfig(host_bytes=1 << 26),
        trace_path=trace,
    )
    prompts = [
        PromptItem(prompt=f"Prompt {i}", prompt_id=str(i))
        for i in range(args.requests // GROUP_SIZE)
    ]
    tokens: Tokens = {}
    async with Rollout(config) as session:
        killer = Killer(session, period_s or 0.0)
        killing = asyncio.create_task(killer.run()) if period_s else None
        begin = time.monotonic()
        async for group in session.stream(prompts, group_size=GROUP_SIZE, sampling=SAMPLING):
            for each in group.completions:
                key = (group.prompt_id, each.member)
                assert key not in tokens, key  # noqa: S101 - the point of the benchmark
                tokens[key] = each.output_token_ids
        elapsed = time.monotonic() - begin
        if killing is not None:
            killing.cancel()
        metrics = session.metrics()
    row = {
        "kill_period_s": period_s,
        "kills": killer.num_kills,
        "instances_lost": metrics.instances_lost,
        "requests": len(tokens),
        "output_tokens": sum(map(len, tokens.values())),
        "chunks": metrics.num_chunks,
        "seconds": round(elapsed, 1),
    }
    print(json.dumps(row), flush=True)
    return tokens


def finished_once(trace: Path, num_requests: int) -> bool:
    """Whether each request has ended exactly once, by the trace."""
    finished = Counter(
        action.request_id
        for record in read_trace(trace)
        for action in record.actions
        if isinstance(action, FinishRequest)
    )
    return len(finished) == num_requests and set(finished.values()) == {1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--period", type=float, default=5.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        traces = [Path(directory) / name for name in ("undisturbed", "killed")]
        undisturbed = asyncio.run(rollout(args, None, traces[0]))
        killed = asyncio.run(rollout(args, args.period, traces[1]))
        num_requests = args.requests // GROUP_SIZE * GROUP_SIZE
        verdict = {
            "finished_exactly_once": [finished_once(trace, num_requests) for trace in traces],
            "different_texts": sum(killed[key] != undisturbed[key] for key in undisturbed),
        }
    print(json.dumps(verdict))
    return 0 if all(verdict["finished_exactly_once"]) and not verdict["different_texts"] else 1


if __name__ == "__main__":
    sys.exit(main())
