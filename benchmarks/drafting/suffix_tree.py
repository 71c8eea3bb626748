"""Seer's suffix tree beside arctic-inference's SuffixDecodingCache. Prints Markdown tables.

    python benchmarks/drafting/suffix_tree.py --arctic-python VENV/bin/python \
        --completions small=FILE.jsonl.gz --completions math=FILE.jsonl.gz --tokenizer DIR

Speed and memory: 32 sequences of 8,000 tokens grow together, 4 tokens an append; streams of random
tokens, of loops with edits, and of the recorded completions. Acceptance: each group of completions
is replayed, members in turn, and Seer drafts as many tokens a step as the other does.
The form of completions is told in completions.py; sequences made of them may be shorter. Every
fourth group, from the third on, is replayed: the weights were fitted on others.
Without --arctic-python only Seer is measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from completions import Group, add_options, read_groups

WORKER = Path(__file__).with_name("suffix_tree_worker.py")
SHAPE = (32, 8_000)
VOCABULARY = 49_152
EDITED = 0.05
"""Share of a loop's tokens that are replaced."""
MEASURES = ["append_ns_per_token", "speculate_8_us", "speculate_16_us", "bytes_per_token"]
POINTS: list[tuple[str, int, int, dict[str, Any]]] = [
    ("chain", 8, 1, {"factor": 1.0}),
    ("chain, long", 8, 1, {"factor": 4.0}),
    ("chain", 16, 1, {"factor": 1.0}),
    ("tree", 8, 4, {"factor": 1.0, "tree": True}),
    ("tree, long", 16, 4, {"factor": 4.0, "tree": True}),
]
"""Shape, most tokens, top_k of ours, options of the other."""


def main() -> None:
    """Both tables."""
    args = _parse_args()
    subjects = {"seer": sys.executable} | (
        {"arctic": args.arctic_python} if args.arctic_python else {}
    )
    groups = {name: read_groups(path, args.tokenizer) for name, path in args.completions}
    with tempfile.TemporaryDirectory() as folder:
        print_speeds(subjects, _streams(groups), Path(folder))
        if args.arctic_python:
            print_acceptance(subjects, groups, Path(folder))


def print_speeds(subjects: dict[str, str], streams: dict[str, np.ndarray], folder: Path) -> None:
    """Append and draft times and resident memory, a row for each stream and drafter."""
    data = folder / "streams.npz"
    np.savez(data, **streams)
    print("| stream | drafter | append ns/token | draft µs, max 8 | max 16 | bytes/token |")
    print("|---|---|---|---|---|---|")
    for stream in streams:
        for subject, python in subjects.items():
            job = {"subject": subject, "data": str(data), "stream": stream}
            measured = _run(python, job)
            cells = [f"{measured[name]:,.4g}" for name in MEASURES]
            print("|", " | ".join([stream, subject, *cells]), "|", flush=True)


def print_acceptance(
    subjects: dict[str, str], groups: dict[str, list[Group]], folder: Path
) -> None:
    """Acceptance length of both at the same number of drafted tokens a step."""
    print("\n| completions | draft | max | drafted a step | arctic | seer | drafted by seer |")
    print("|---|---|---|---|---|---|---|")
    for name, all_groups in groups.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps([_plain(group) for group in all_groups[2::4]]))
        for shape, max_nodes, top_k, options in POINTS:
            job = {"groups": str(path), "max_nodes": max_nodes}
            theirs = _run(subjects["arctic"], job | {"subject": "arctic", "options": options})
            ours = _match_drafted(subjects["seer"], job, top_k, theirs["drafted_per_step"])
            cells = [theirs["drafted_per_step"], theirs["acceptance_length"]]
            cells += [ours["acceptance_length"], ours["drafted_per_step"]]
            numbers = [f"{cell:.2f}" for cell in cells]
            print("|", " | ".join([name, shape, str(max_nodes), *numbers]), "|", flush=True)


def _plain(group: Group) -> dict[str, Any]:
    """For the worker, as JSON."""
    return {
        "prompt": group.prompt.tolist(),
        "outputs": [output.tolist() for output in group.outputs],
    }


def _match_drafted(python: str, job: dict[str, Any], top_k: int, target: float) -> dict[str, float]:
    """Seer with the lowest threshold (bisected) that drafts no more than `target` a step."""
    low, high = 0.0, 1.0
    best = {"acceptance_length": 1.0, "drafted_per_step": 0.0}
    for _ in range(9):
        middle = (low + high) / 2
        options = {"top_k": top_k, "min_probability": middle}
        measured = _run(python, job | {"subject": "seer", "options": options})
        if measured["drafted_per_step"] > target:
            low = middle
        else:
            high, best = middle, measured
    return best


def _run(python: str, job: dict[str, Any]) -> dict[str, float]:
    command = [python, str(WORKER), json.dumps(job)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def _streams(groups: dict[str, list[Group]]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    loop = np.resize(rng.integers(0, VOCABULARY, 300), SHAPE[1] + 300)
    starts = rng.integers(0, 300, SHAPE[0])
    loops = np.stack([loop[start : start + SHAPE[1]] for start in starts])
    edited = rng.random(SHAPE) < EDITED
    loops[edited] = rng.integers(0, VOCABULARY, int(edited.sum()))
    streams = {"random": rng.integers(0, VOCABULARY, SHAPE), "loops, 5 % edited": loops}
    streams |= {name: _packed(listed) for name, listed in groups.items()}
    return {name: np.ascontiguousarray(stream, np.int32) for name, stream in streams.items()}


def _packed(groups: list[Group]) -> np.ndarray:
    """Completions end to end, siblings side by side, cut to the shortest sequence."""
    rows: list[list[int]] = [[] for _ in range(SHAPE[0])]
    size = max(len(group.outputs) for group in groups)
    for number, group in enumerate(groups):
        first = number * size % SHAPE[0]
        for member, output in enumerate(group.outputs):
            rows[(first + member) % SHAPE[0]] += output.tolist()
    length = min(SHAPE[1], *(len(row) for row in rows))
    return np.array([row[:length] for row in rows])


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--arctic-python")
    add_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
