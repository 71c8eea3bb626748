"""The owner's side of `vllm_worker.py`: how plain vLLM is configured, started and asked."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seer.cli.job import Job
from seer.engines.vllm.arguments import engine_arguments
from seer.engines.vllm.environment import environment
from seer.engines.vllm.spec import VllmSpec
from seer.rollout.engine import InstanceSetup

WORKER = Path(__file__).with_name("vllm_worker.py")
SEERS_OWN = ("worker_extension_cls", "disable_log_stats", "max_num_batched_tokens")
"""Arguments that only Seer gives vLLM."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a worker generated, in seconds of the monotonic clock."""

    start_s: float
    end_s: list[float]
    """Last token of each request."""
    num_tokens: list[int]
    num_preemptions: int


class PlainVllm:
    """One vLLM of its own, with as much KV as an instance of Seer, on the same processors."""

    def __init__(self, spec: VllmSpec, cpus: Sequence[int]) -> None:
        setup = InstanceSetup(instance_id=0, cpus=tuple(cpus))
        arguments = engine_arguments(spec, setup)
        for name in SEERS_OWN:
            del arguments[name]
        # Per-request times come with the statistics.
        configuration = {
            "cpus": list(cpus),
            "environment": environment(spec, setup, os.environ),
            "arguments": arguments | {"disable_log_stats": False},
        }
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._send(configuration)

    def wait_until_ready(self) -> None:
        """The model is loaded."""
        self._answer()

    def ask(self, prompts: list[list[int]], sampling: dict[str, Any]) -> None:
        """Start a batch."""
        self._send({"prompts": prompts, "sampling": sampling})

    def batch(self) -> Batch:
        """The batch that was asked for, when it is done."""
        answer = self._answer()
        return Batch(
            answer["start"], answer["ends"], answer["num_tokens"], answer["num_preemptions"]
        )

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the vLLM worker ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


def plain_sampling(job: Job, spec: VllmSpec) -> dict[str, Any]:
    """The job's sampling in vLLM's terms, for whole responses. Stop strings are not compared."""
    sampling = job.sampling
    if sampling.stop:
        raise SystemExit("stop: not in this comparison")
    ends = [] if sampling.ignore_eos else list(spec.shape().eos_token_ids)
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "max_tokens": sampling.max_tokens,
        "stop_token_ids": ends,
        "ignore_eos": True,
        "logprobs": 0,
        "detokenize": False,
    }
