"""How far the calibrated veRL column is off the paper's. Simulated; options in common.py.

python benchmarks/paper/calibration.py --seeds 5 --jobs 2
"""

from common import BASELINE, Entry, Key, parse_options, report, simulate_all
from paper_values import FIG_3, FIG_8_VERL, WORKLOADS


def main() -> None:
    options = parse_options(__doc__ or "")
    keys = {
        w: [Key(workload=w, policy=BASELINE, seed=seed) for seed in range(options.seeds)]
        for w in WORKLOADS
    }
    rows = simulate_all([key for each in keys.values() for key in each], options)
    entries = []
    for workload in WORKLOADS:
        own = [rows[key] for key in keys[workload]]
        total, tail = FIG_8_VERL[workload]
        known = FIG_3 if workload == "qwen2-vl-72b" else {}
        columns = {
            "total s": ([row.total_time_s for row in own], total),
            "tail share": ([row.tail_time_s / row.total_time_s for row in own], tail / total),
            "preemptions": ([row.preemptions for row in own], known.get("preemptions")),
            "idle share": ([row.idle_share for row in own], known.get("idle share")),
            "finish gap": ([row.finish_gap_share for row in own], known.get("finish gap")),
        }
        entries += [
            Entry(name=f"{workload}: {name}", values=tuple(values), paper=paper)
            for name, (values, paper) in columns.items()
        ]
    report("Calibration: group_round_robin as veRL", entries, rows.values(), options)


if __name__ == "__main__":
    main()
