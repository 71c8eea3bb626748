"""Paper Fig 8: total and tail time of veRL and Seer. Simulated; options in common.py.

    python benchmarks/paper/fig8.py --seeds 5 --jobs 2

veRL's lines are what the simulator is calibrated to; Seer's are predictions.
"""

from common import (
    BASELINE,
    Entry,
    Key,
    Row,
    parse_options,
    ratio_entry,
    report,
    simulate_all,
)
from paper_values import FIG_8_SEER, FIG_8_VERL, WORKLOADS


def entries_of(workload: str, verl: list[Row], seer: list[Row]) -> list[Entry]:
    """Seconds of both, and how much tail is left."""
    entries = []
    for name, rows, paper in (("veRL", verl, FIG_8_VERL), ("Seer", seer, FIG_8_SEER)):
        total, tail = paper[workload]
        entries += [
            Entry(
                name=f"{workload}: {name}, total s",
                values=tuple(row.total_time_s for row in rows),
                paper=total,
            ),
            Entry(
                name=f"{workload}: {name}, tail s",
                values=tuple(row.tail_time_s for row in rows),
                paper=tail,
            ),
        ]
    left = FIG_8_SEER[workload][1] / FIG_8_VERL[workload][1]
    name = f"{workload}: tail, Seer / veRL"
    return [*entries, ratio_entry(name, seer, verl, left, "tail_time_s")]


def main() -> None:
    options = parse_options(__doc__ or "")

    def keys(workload: str, policy: str, drafting: str) -> list[Key]:
        return [
            Key(workload=workload, policy=policy, drafting=drafting, seed=seed)
            for seed in range(options.seeds)
        ]

    verl = {w: keys(w, BASELINE, "off") for w in WORKLOADS}
    seer = {w: keys(w, "seer", "on") for w in WORKLOADS}
    wanted = [key for each in (verl, seer) for keys in each.values() for key in keys]
    rows = simulate_all(wanted, options)
    entries = [
        entry
        for w in WORKLOADS
        for entry in entries_of(w, [rows[key] for key in verl[w]], [rows[key] for key in seer[w]])
    ]
    report("Fig 8: total and tail time", entries, rows.values(), options)


if __name__ == "__main__":
    main()
