"""Accuracy on held-out items over the steps of several runs: table and plot (measured).

Run: python benchmarks/training/curves.py out/a out/b out/c --plot docs/img/training_accuracy.png
"""

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


def main() -> None:
    """Read evaluations.jsonl of each run; print mean and standard error at each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    runs = [accuracies(run) for run in given.runs]
    steps = sorted(set.intersection(*(set(run) for run in runs)))
    print("| step | mean | s.e. | runs |\n|---|---|---|---|")
    for step in steps:
        values = [run[step] for run in runs]
        shown = ", ".join(f"{value:.3f}" for value in values)
        print(f"| {step} | {statistics.fmean(values):.3f} | {error(values):.3f} | {shown} |")
    if given.plot:
        plot(given.plot, steps, runs)


def accuracies(run: Path) -> dict[int, float]:
    """Accuracy by step."""
    rows = [json.loads(line) for line in (run / "evaluations.jsonl").open()]
    return {row["step"]: row["accuracy"] for row in rows}


def error(values: Sequence[float]) -> float:
    """Standard error of the mean; NaN for a single run."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def plot(path: Path, steps: Sequence[int], runs: Sequence[dict[int, float]]) -> None:
    """Each run thin, the mean with its standard error on top."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for run in runs:
        axes.plot(steps, [run[step] for step in steps], color="0.75", linewidth=1)
    columns = [[run[step] for run in runs] for step in steps]
    means, errors = [statistics.fmean(c) for c in columns], [error(c) for c in columns]
    axes.errorbar(steps, means, yerr=errors, color="C0", capsize=3, label="mean ± s.e.")
    axes.set(xlabel="optimiser step", ylabel="accuracy, held-out items", ylim=(0, 1))
    axes.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
