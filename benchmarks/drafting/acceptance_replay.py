"""Replays grouped completions as drafts: a table shaped as the paper's Table 2, and reliability.

    python benchmarks/drafting/acceptance_replay.py --tokenizer DIR \
        --completions small=FILE.jsonl.gz --completions rollout=OUT/completions.parquet \
        [--plot docs/img/drafting_reliability.png]

Every response is generated anew, with n finished responses of its group in the tree; its own text
and the prompt, where there is one, are there too. Tables are Markdown; acceptance length is tokens
a step, the bonus token included. At most `--nodes` draft nodes a path: with k paths k times as
many. The form of completions is told in completions.py; `seer rollout` writes completions.parquet.
The plot is of the reliability; it needs matplotlib (the extra `report`).
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from completions import Group, add_options
from numpy.typing import NDArray
from rollout_completions import read_completions

from seer.drafting.acceptance import AcceptanceSettings, AcceptanceStatistics
from seer.drafting.outcomes import accepted_nodes
from seer.drafting.suffix_tree import DraftSettings, SuffixTree, speculate_batch

REFERENCES = (0, 1, 5, 15)
PATHS = (1, 2, 4)


@dataclass
class Tally:
    """Sums over a replay."""

    tokens: int = 0
    steps: int = 0
    drafted: int = 0


def main() -> None:
    """Both tables for each set."""
    args = _parse_args()
    reliabilities = {}
    for name, path in args.completions:
        groups = read_completions(path, args.tokenizer)[:: args.every]
        most = max(len(group.outputs) for group in groups) - 1
        num_outputs = sum(len(group.outputs) for group in groups)
        print(f"\n{name}: {len(groups)} groups, {num_outputs} responses\n")
        print("| references | linear | k=2 | k=4 | nodes a step: linear | k=2 | k=4 |")
        print("|---|---|---|---|---|---|---|")
        statistics = AcceptanceStatistics(AcceptanceSettings(decay=1.0, num_bins=10))
        for references in sorted({min(n, most) for n in REFERENCES}):
            print(_row(groups, references, args.nodes, statistics), flush=True)
        print("\n| estimate | nodes | mean estimate | accepted |\n|---|---|---|---|")
        reliabilities[name] = statistics.reliability()
        for i, (nodes, estimate, accepted) in enumerate(reliabilities[name]):
            if nodes:
                low = f"{i / 10:.1f} to {(i + 1) / 10:.1f}"
                print(f"| {low} | {nodes:,.0f} | {estimate:.3f} | {accepted:.3f} |")
    if args.plot:
        _plot(reliabilities, args.plot)


def _row(groups: list[Group], references: int, nodes: int, statistics: AcceptanceStatistics) -> str:
    tallies = []
    for paths in PATHS:
        tally = Tally()
        for group in groups:
            _replay(group, references, (nodes * paths, paths), tally, statistics)
        tallies.append(tally)
    lengths = [f"{tally.tokens / tally.steps:.2f}" for tally in tallies]
    drafted = [f"{tally.drafted / tally.steps:.1f}" for tally in tallies]
    return "| " + " | ".join([str(references), *lengths, *drafted]) + " |"


def _replay(
    group: Group,
    references: int,
    shape: tuple[int, int],
    tally: Tally,
    statistics: AcceptanceStatistics,
) -> None:
    """All responses of a group side by side, each in a tree of its own."""
    max_nodes, paths = shape
    settings = DraftSettings(top_k=paths)
    size = len(group.outputs)
    trees = [_tree(group, member, references) for member in range(size)]
    cursors = [tree.cursor(member) for member, tree in enumerate(trees)]
    done = [0] * size
    while running := [m for m in range(size) if done[m] < len(group.outputs[m])]:
        drafts = speculate_batch([cursors[m] for m in running], max_nodes, settings)
        accepted = np.zeros(len(drafts.token_ids), np.bool_)
        for place, member in enumerate(running):
            nodes = drafts.nodes(place)
            rest = group.outputs[member][done[member] :]
            accepted[nodes] = accepted_nodes(drafts.token_ids[nodes], drafts.parents[nodes], rest)
            taken = min(int(np.count_nonzero(accepted[nodes])) + 1, len(rest))
            trees[member].append(member, done[member], rest[:taken])
            done[member] += taken
            tally.tokens += taken
        tally.steps += len(running)
        tally.drafted += len(drafts.token_ids)
        statistics.observe(drafts, np.diff(drafts.offsets), accepted)


def _tree(group: Group, member: int, references: int) -> SuffixTree:
    """Holds the prompt and the `references` responses after this one, round the group."""
    tree = SuffixTree()
    if len(group.prompt):
        tree.set_prompt(group.prompt)
    for step in range(1, references + 1):
        other = (member + step) % len(group.outputs)
        tree.append(other, 0, group.outputs[other])
    return tree


def _plot(reliabilities: Mapping[str, NDArray[np.float64]], path: Path) -> None:
    """The share of nodes that were accepted over their mean estimate, a line for each set."""
    import matplotlib as mpl  # noqa: PLC0415 - an optional extra

    mpl.use("agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axis = plt.subplots(figsize=(4.5, 4), layout="constrained")
    axis.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1)
    for name, rows in reliabilities.items():
        axis.plot(rows[:, 1], rows[:, 2], marker="o", markersize=4, label=name)
    axis.set(xlabel="estimated probability of a draft node", ylabel="share accepted (measured)")
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.legend()
    figure.savefig(path, dpi=120)


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--nodes", type=int, default=8, help="most draft nodes a path")
    parser.add_argument("--every", type=int, default=1, help="replay every n-th group")
    parser.add_argument("--plot", type=Path, help="picture of the reliability")
    return parser.parse_args()


if __name__ == "__main__":
    main()
