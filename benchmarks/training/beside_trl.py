"""Seconds of an iteration of `seer train` beside TRL alone and beside Seer's baseline (measured).

The runs take turns, each in a process of its own, from the same weights on the same items:
`seer` (the file's policy and drafting), `baseline` (undivided, no drafts), and `trl` (TRL's own
generation by transformers). The first step of each run is left out of the times: it warms up.
Whether `seer` and `baseline` gave the same rewards in every step is said below the table: in
float32 they should.

    python benchmarks/training/beside_trl.py examples/train_arithmetic.toml --steps 5 --repeats 2
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("rollout_s", "reward_wait_s", "train_s", "weight_update_s", "check_s", "other_s")
RUNS = ("seer", "baseline", "trl")


def main() -> None:
    """Run them in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--runs", default=",".join(RUNS), help="comma list of " + ", ".join(RUNS))
    given = parser.parse_args()
    names = given.runs.split(",")
    steps: dict[str, list[dict[str, float]]] = defaultdict(list)
    rewards: dict[str, list[float]] = defaultdict(list)
    for repeat in range(given.repeats):
        for name in names:
            rows = run(name, given.config, given.steps, seed=repeat)
            steps[name] += rows[1:]
            rewards[name] += [row["reward"] for row in rows]
            print(f"repeat {repeat} {name}: {mean(rows[1:], 'total_s'):.1f} s a step", flush=True)
    print_table(names, steps)
    if {"seer", "baseline"} <= set(names):
        pairs = list(zip(rewards["seer"], rewards["baseline"], strict=True))
        same = sum(ours == theirs for ours, theirs in pairs)
        print(f"rewards of seer and baseline: the same in {same} of {len(pairs)} steps")


def run(name: str, config: Path, steps: int, *, seed: int) -> list[dict[str, float]]:
    """The rows of one run's steps."""
    with tempfile.TemporaryDirectory() as out:
        flags = ["--steps", str(steps), "--seed", str(seed), "--out", out]
        if name == "trl":
            command = [sys.executable, str(HERE / "plain_trl.py"), str(config), *flags]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
            return [row | {"total_s": row["seconds"]} for row in rows]
        command = [sys.executable, "-m", "seer.cli.main", "train", str(config), *flags]
        command += ["--held-out-items", "0", "--checkpoint-every", str(steps)]
        command += ["--baseline"] if name == "baseline" else []
        subprocess.run(command, check=True, capture_output=True)
        return [json.loads(line) for line in (Path(out) / "metrics.jsonl").open()]


def print_table(names: Sequence[str], steps: dict[str, list[dict[str, float]]]) -> None:
    """Means over steps and repeats; the rollout's share where it is known."""
    print("| | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    row("s a step", [f"{mean(steps[name], 'total_s'):.1f}" for name in names])
    first = mean(steps[names[0]], "total_s")
    row(f"over {names[0]}", [f"{mean(steps[name], 'total_s') / first:.2f}" for name in names])
    row("tokens a response", [f"{mean(steps[name], 'mean_tokens'):.0f}" for name in names])
    for part in PARTS:
        label = part.removesuffix("_s").replace("_", " ")
        row(f"{label}, %", [share(steps[name], part) for name in names])


def share(rows: Sequence[dict[str, float]], part: str) -> str:
    """Percent of the iteration; TRL does not split its own."""
    if part not in rows[0]:
        return "-"
    return f"{100 * mean(rows, part) / mean(rows, 'total_s'):.0f}"


def mean(rows: Sequence[dict[str, float]], name: str) -> float:
    """Mean of a column."""
    return statistics.fmean(row[name] for row in rows)


def row(name: str, cells: Sequence[str]) -> None:
    """One line of the table."""
    print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
