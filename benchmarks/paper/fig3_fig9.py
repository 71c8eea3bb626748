"""Paper Figs 3 and 9: preemptions, idle instances and requests running over time, qwen2-vl-72b.

    python benchmarks/paper/fig3_fig9.py --seeds 5 --jobs 2 [--plot docs/img/running.png]

Simulated; options in common.py. The plot is of the first seed.
"""

from collections import defaultdict
from pathlib import Path

from common import BASELINE, Entry, Key, Row, parse_options, report, simulate_all
from paper_values import FIG_3

from seer.rollout.events import ChunkFinished, StartChunk
from seer.rollout.trace import TraceRecord
from seer.simulator.experiment import prepare_case, simulate

WORKLOAD = "qwen2-vl-72b"
PANELS = {
    "group_round_robin (veRL)": Key(workload=WORKLOAD, policy=BASELINE),
    "seer, drafts": Key(workload=WORKLOAD, policy="seer", drafting="on"),
}
Points = list[tuple[float, int]]
"""Minutes and requests running."""


class Running:
    """Requests that run on each instance, noted whenever a chunk ends."""

    def __init__(self) -> None:
        self.points: dict[int, Points] = defaultdict(list)

    def add(self, record: TraceRecord) -> None:
        """Note a record's count, if it has one."""
        event = record.event
        if not isinstance(event, ChunkFinished):
            return
        begun = sum(
            isinstance(action, StartChunk) and action.instance_id == event.instance_id
            for action in record.actions
        )
        count = event.load.num_running + begun
        self.points[event.instance_id].append((record.t / 60, count))


def entries_of(name: str, rows: list[Row], paper: dict[str, float]) -> list[Entry]:
    """What Fig 3 says about an iteration."""
    columns = {
        "preemptions": [row.preemptions for row in rows],
        "idle share": [row.idle_share for row in rows],
        "finish gap": [row.finish_gap_share for row in rows],
    }
    return [
        Entry(name=f"{name}: {measure}", values=tuple(values), paper=paper.get(measure))
        for measure, values in columns.items()
    ]


def plot(path: Path) -> None:
    """A panel a system, a line an instance, the same time axis."""
    import matplotlib as mpl  # noqa: PLC0415 - an optional extra

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(len(PANELS), sharex=True, figsize=(7, 5), layout="constrained")
    for axis, (name, key) in zip(axes, PANELS.items(), strict=True):
        running = Running()
        simulate(key.case(), prepare_case(key.case()), running.add)
        for points in running.points.values():
            sampled = points[:: max(1, len(points) // 400)]
            axis.plot(*zip(*[*sampled, points[-1]], strict=True), linewidth=0.7)
        axis.set(title=f"{name} (simulated)", ylabel="running requests", ylim=0)
    axes[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = parse_options(__doc__ or "")
    keys = {
        name: [
            Key(workload=WORKLOAD, policy=key.policy, drafting=key.drafting, seed=seed)
            for seed in range(options.seeds)
        ]
        for name, key in PANELS.items()
    }
    rows = simulate_all([key for each in keys.values() for key in each], options)
    entries = []
    for name, own in keys.items():
        paper = FIG_3 if own[0].policy == BASELINE else {}
        entries += entries_of(name, [rows[key] for key in own], paper)
    report(f"Figs 3 and 9: {WORKLOAD}", entries, rows.values(), options)
    if options.plot is not None:
        plot(Path(options.plot))


if __name__ == "__main__":
    main()
