"""Paper Fig 7: throughput over veRL's at group sizes 8 and 16. Simulated; options in common.py.

    python benchmarks/paper/fig7.py --seeds 5 --jobs 2

Vanilla drafts are here suffix drafts from a request's own text; the paper's are a draft model for
qwen2-vl-72b and multi-token prediction for kimi-k2.
"""

from common import BASELINE, Key, parse_options, ratio_entry, report, simulate_all
from paper_values import FIG_7

SYSTEMS = {
    "veRL + vanilla drafts": (BASELINE, "vanilla"),
    "StreamRL-Oracle": ("streamrl_oracle", "off"),
    "StreamRL-Oracle + vanilla drafts": ("streamrl_oracle", "vanilla"),
    "Seer (policy seer, drafts)": ("seer", "on"),
}


def main() -> None:
    options = parse_options(__doc__ or "")

    def keys(workload: str, size: int, policy: str, drafting: str = "off") -> list[Key]:
        own_size = None if (workload == "qwen2-vl-72b") == (size == 16) else size  # noqa: PLR2004
        return [
            Key(workload=workload, policy=policy, drafting=drafting, group_size=own_size, seed=seed)
            for seed in range(options.seeds)
        ]

    wanted = [key for panel in FIG_7 for key in keys(*panel, BASELINE)]
    wanted += [
        key for panel in FIG_7 for system in SYSTEMS.values() for key in keys(*panel, *system)
    ]
    rows = simulate_all(wanted, options)
    entries = [
        ratio_entry(
            f"{workload}, G {size}: {name}",
            [rows[key] for key in keys(workload, size, *system)],
            [rows[key] for key in keys(workload, size, BASELINE)],
            paper=paper,
        )
        for (workload, size), values in FIG_7.items()
        for (name, system), paper in zip(SYSTEMS.items(), values, strict=True)
    ]
    report("Fig 7: throughput over veRL's", entries, rows.values(), options)


if __name__ == "__main__":
    main()
