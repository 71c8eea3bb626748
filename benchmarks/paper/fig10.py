"""Paper Fig 10: what length context is worth, without drafts. Simulated; options in common.py.

    python benchmarks/paper/fig10.py --seeds 5 --jobs 2

The paper has qwen2-vl-72b; the other two are here to set our policy beside the oracle.
"""

from common import BASELINE, Key, parse_options, ratio_entry, report, simulate_all
from paper_values import FIG_10, WORKLOADS

POLICIES = ("divided", "context_aware", "seer", "oracle")


def main() -> None:
    options = parse_options(__doc__ or "")

    def keys(workload: str, policy: str) -> list[Key]:
        return [Key(workload=workload, policy=policy, seed=seed) for seed in range(options.seeds)]

    rows = simulate_all(
        [key for p in (BASELINE, *POLICIES) for w in WORKLOADS for key in keys(w, p)], options
    )
    entries = []
    for workload in WORKLOADS:
        verl = [rows[key] for key in keys(workload, BASELINE)]
        oracle = [rows[key] for key in keys(workload, "oracle")]
        papers = FIG_10 if workload == "qwen2-vl-72b" else {}
        for policy in POLICIES:
            own = [rows[key] for key in keys(workload, policy)]
            speed, tail = papers.get(policy, (None, None))
            name = f"{workload}: {policy}"
            entries += [
                ratio_entry(f"{name}, throughput / veRL", own, verl, speed),
                ratio_entry(f"{name}, tail / veRL", own, verl, tail, "tail_time_s"),
            ]
        seer = [rows[key] for key in keys(workload, "seer")]
        entries.append(ratio_entry(f"{workload}: seer, throughput / oracle", seer, oracle))
    report("Fig 10: length context", entries, rows.values(), options)


if __name__ == "__main__":
    main()
