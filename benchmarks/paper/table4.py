"""Paper Table 4: what divided rollout, context and drafts add. Simulated; options in common.py.

python benchmarks/paper/table4.py --seeds 5 --jobs 2
"""

from common import BASELINE, Key, parse_options, ratio_entry, report, simulate_all
from paper_values import TABLE_4, WORKLOADS

STEPS = {
    "divided": ("divided", "off"),
    "context_aware": ("context_aware", "off"),
    "context_aware + drafts": ("context_aware", "on"),
}


def main() -> None:
    options = parse_options(__doc__ or "")
    seeds = range(options.seeds)

    def keys(workload: str, policy: str, drafting: str = "off") -> list[Key]:
        return [
            Key(workload=workload, policy=policy, drafting=drafting, seed=seed) for seed in seeds
        ]

    wanted = [key for w in WORKLOADS for key in keys(w, BASELINE)]
    wanted += [key for w in WORKLOADS for step in STEPS.values() for key in keys(w, *step)]
    rows = simulate_all(wanted, options)
    entries = [
        ratio_entry(
            f"{workload}: {name}",
            [rows[key] for key in keys(workload, *step)],
            [rows[key] for key in keys(workload, BASELINE)],
            paper=TABLE_4[name][column],
        )
        for column, workload in enumerate(WORKLOADS)
        for name, step in STEPS.items()
    ]
    report("Table 4: throughput over veRL's", entries, rows.values(), options)


if __name__ == "__main__":
    main()
