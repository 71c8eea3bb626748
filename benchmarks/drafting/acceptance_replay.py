"""Replays grouped completions as drafts: a table shaped as the paper's Table 2, and reliability.

    python benchmarks/drafting/acceptance_replay.py --tokenizer DIR \
        --completions small=FILE.jsonl.gz --completions math=FILE.jsonl.gz

Every response is generated anew, with n finished responses of its group in the tree; its own text
and the prompt, where there is one, are there too. Tables are Markdown; acceptance length is tokens
a step, the bonus token included. At most `--nodes` draft nodes a path: with k paths k times as
many. The form of completions is told in completions.py.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from completions import Group, add_options, read_groups

from seer.drafting.acceptance import AcceptanceSettings, AcceptanceStatistics, accepted_nodes
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
    for name, path in args.completions:
        groups = read_groups(path, args.tokenizer)[:: args.every]
        most = max(len(group.outputs) for group in groups) - 1
        num_outputs = sum(len(group.outputs) for group in groups)
        print(f"\n{name}: {len(groups)} groups, {num_outputs} responses\n")
        print("| references | linear | k=2 | k=4 | nodes a step: linear | k=2 | k=4 |")
        print("|---|---|---|---|---|---|---|")
        statistics = AcceptanceStatistics(AcceptanceSettings(decay=1.0, num_bins=10))
        for references in sorted({min(n, most) for n in REFERENCES}):
            print(_row(groups, references, args.nodes, statistics), flush=True)
        print("\n| estimate | nodes | mean estimate | accepted |\n|---|---|---|---|")
        for i, (nodes, estimate, accepted) in enumerate(statistics.reliability()):
            if nodes:
                low = f"{i / 10:.1f} to {(i + 1) / 10:.1f}"
                print(f"| {low} | {nodes:,.0f} | {estimate:.3f} | {accepted:.3f} |")


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


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--nodes", type=int, default=8, help="most draft nodes a path")
    parser.add_argument("--every", type=int, default=1, help="replay every n-th group")
    return parser.parse_args()


if __name__ == "__main__":
    main()
