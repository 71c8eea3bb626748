"""Paper Fig 12: against partial rollout, qwen2-vl-72b. Simulated; options in common.py.

    python benchmarks/paper/fig12.py --seeds 3 --jobs 2

Throughput over five iterations, and the lengths that partial rollout's first iteration hands to
training: each bin's share over its share in the whole workload (1: as the policy produces them).
The first iteration only, as responses that go on in the next one count there with their rest.
"""

from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from common import Entry, Key, parse_options, report, simulate_all
from paper_values import FIG_12_RATIO

from seer.simulator.baselines import PartialRollout, partial_rollout
from seer.simulator.experiment import prepare_case

WORKLOAD = "qwen2-vl-72b"
BIN_TOKENS = 10_000


def partial(seed: int) -> tuple[PartialRollout, list[float]]:
    """Five iterations, and the bins of the first one alone."""
    setting = prepare_case(Key(workload=WORKLOAD, policy="divided", seed=seed).case())
    first = partial_rollout(setting.cluster, setting.workload, num_iterations=1)
    all_lengths = [length for group in setting.workload.groups for length in group.known_lengths]
    handed, wanted = bin_shares(first.finished_lengths), bin_shares(all_lengths)
    ratios = [handed.get(number, 0.0) / share for number, share in sorted(wanted.items())]
    return partial_rollout(setting.cluster, setting.workload), ratios


def bin_shares(lengths: tuple[int, ...] | list[int]) -> dict[int, float]:
    """Share of the responses in each bin; the limit itself belongs to the last."""
    counts = Counter(length // BIN_TOKENS for length in lengths)
    return {number: count / len(lengths) for number, count in counts.items()}


def main() -> None:
    options = parse_options(__doc__ or "", seeds=3)
    keys = [
        Key(workload=WORKLOAD, policy="seer", drafting="on", seed=seed)
        for seed in range(options.seeds)
    ]
    rows = simulate_all(keys, options)
    with ProcessPoolExecutor(options.jobs) as pool:
        partials = list(pool.map(partial, range(options.seeds)))
    speeds = [each.output_tokens / each.total_time_s for each, _ in partials]
    ratios = [
        rows[key].throughput_tokens_per_s / speed for key, speed in zip(keys, speeds, strict=True)
    ]
    entries = [
        Entry(name="throughput, Seer / partial rollout", values=tuple(ratios), paper=FIG_12_RATIO)
    ]
    for number, values in enumerate(zip(*(bins for _, bins in partials), strict=True)):
        low, high = number * BIN_TOKENS // 1000, (number + 1) * BIN_TOKENS // 1000
        entries.append(
            Entry(name=f"responses of {low}-{high} k tokens, share / true", values=values)
        )
    report("Fig 12: partial rollout", entries, rows.values(), options)


if __name__ == "__main__":
    main()
