"""Budgets side by side: tokens a second against no drafting, by batch (simulated, a replay).

    python benchmarks/drafting/budget_ablation.py --tokenizer DIR \
        --completions small=FILE.jsonl.gz --completions math=FILE.jsonl.gz

B requests of real groups run in one batch, four groups abreast; one that ends makes room for the
next. The real text says which drafted tokens are accepted; a step-time model says how long a step
takes, and it is what the budgets see too. All budgets have the same texts in the same order.
Planning, drafting and learning are not part of these seconds. They are measured and added in one
column for `marginal` and one for `seer`.
The form of completions is told in completions.py; `seer rollout` writes completions.parquet.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from completions import Group, add_options
from replayed_batch import Tally, queue, replay
from rollout_completions import read_completions

from seer.costmodel.hardware import find_hardware
from seer.costmodel.layout import parse_layout
from seer.costmodel.models import find_model
from seer.costmodel.profile_file import read_profile
from seer.costmodel.roofline import roofline
from seer.costmodel.step_time import StepTime
from seer.drafting.acceptance import AcceptanceStatistics
from seer.drafting.budget import Budget, FixedBudget, MarginalBenefit, SeerBudget
from seer.drafting.planner import Planner
from seer.drafting.suffix_tree import DraftSettings

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LEAST_TOKENS = 12_000
TOKENS_A_REQUEST = 600
"""Of a batch: two or three of the sets' responses after each other."""
PROFILE = Path(__file__).with_name("data") / "local_engine_float32.json"
"""Written by `seer profile` for SmolLM2-135M, one core."""
OFF = "off"
FIXED = {f"fixed {n}": FixedBudget(n) for n in (1, 2, 4, 8)}
TIMED: dict[str, Callable[[StepTime], Budget]] = {
    "marginal": lambda step_time: MarginalBenefit(step_time=step_time),
    "seer": lambda step_time: SeerBudget(step_time=step_time),
    "seer, all alike": lambda step_time: SeerBudget(step_time=step_time, probe_weight=1.0),
}
"""Budgets that ask how long a step takes. `all alike`: probes do not count more."""
CHARGED = ("marginal", "seer")
"""Budgets whose own time is counted in a column of its own."""


def main() -> None:
    """A table for each set and step-time model, and what planning cost."""
    args = _parse_args()
    step_times = {
        "local engine": read_profile(PROFILE).step_time,
        "72B on 8 H800": roofline(
            find_model("qwen2-vl-72b"), find_hardware("h800"), parse_layout("tp8")
        ),
    }
    for name, path in args.completions:
        groups = read_completions(path, args.tokenizer)[: args.groups]
        plain = _run_all(groups, {OFF: FixedBudget(0)} | FIXED, args.batches)
        for model, step_time in step_times.items():
            timed = {budget: make(step_time) for budget, make in TIMED.items()}
            tallies = plain | _run_all(groups, timed, args.batches)
            print(f"\n{name}, {model}\n")
            _print_table(tallies, step_time, args.batches)


def _run_all(
    groups: Sequence[Group], budgets: dict[str, Budget], batches: Sequence[int]
) -> dict[tuple[str, int], Tally]:
    """By budget and batch."""
    limit = max(len(output) for group in groups for output in group.outputs)
    return {
        (name, size): replay(
            queue(groups),
            size,
            Planner(budget, DraftSettings(), AcceptanceStatistics()),
            max(LEAST_TOKENS, TOKENS_A_REQUEST * size),
            limit,
        )
        for name, budget in budgets.items()
        for size in batches
    }


def _print_table(
    tallies: dict[tuple[str, int], Tally], step_time: StepTime, batches: Sequence[int]
) -> None:
    budgets = [*FIXED, *TIMED]
    own = [f"{budget} with its own time" for budget in CHARGED]
    more = ["its time, ms a step", "its nodes, tokens a step"]
    header = ["batch", "off, tokens/s", *budgets, *own, *more]
    print("|", " | ".join(header), "|")
    print("|---" * len(header) + "|")
    for size in batches:
        off = tallies[OFF, size].tokens_per_s(step_time)
        rates = [tallies[budget, size].tokens_per_s(step_time) / off for budget in budgets]
        charged = [tallies[budget, size] for budget in CHARGED]
        ours = tallies["seer", size]
        cells = [
            str(size),
            f"{off:,.0f}",
            *(f"{rate:.3f}" for rate in rates),
            *(f"{each.tokens_per_s(step_time, each.own_s) / off:.3f}" for each in charged),
            f"{ours.own_ms_a_step:.2f}",
            f"{ours.nodes_a_step:.1f}, {ours.tokens_a_step:.2f}",
        ]
        print("|", " | ".join(cells), "|", flush=True)


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--groups", type=int, help="use the first so many groups")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    return parser.parse_args()


if __name__ == "__main__":
    main()
