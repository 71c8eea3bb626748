"""What a result depends on: one thing is changed at a time. Simulated; options in common.py.

    python benchmarks/paper/sweeps.py --seeds 3 --jobs 2 --plot docs/img

On a quarter of qwen2-vl-72b (4 instances, 2,400 requests), without drafts. Prints throughput over
that of group_round_robin in the same setting and seed, and draws a picture for each sweep.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

import msgspec
import numpy as np
from common import BASELINE, Key, Row, measure, parse_options, ratio_entry, report, simulate_all

from seer.scheduling import open_groups, runaways, seer_policy
from seer.scheduling.divided_policies import Divided, Waiting
from seer.scheduling.request_buffer import OrderKey
from seer.scheduling.seer_policy import FEWEST_CHUNKS_A_LIMIT, SeerPolicy
from seer.simulator.bounds import lower_bounds
from seer.simulator.experiment import Setting
from seer.simulator.paper_workloads import PaperWorkload, find_paper_workload
from seer.simulator.simulation import Fault

WORKLOAD = "qwen2-vl-72b"
NUM_INSTANCES, NUM_REQUESTS = 4, 2400
SEER_CHUNK = 40_960 // FEWEST_CHUNKS_A_LIMIT
"""seer's chunks are never longer on this workload."""
SLOW_FACTOR = 2.0
LOST_AT = 0.3
"""When an instance is lost, in parts of the least possible time."""
DIVIDED_POLICIES = ("divided", "context_aware", "seer")
WITH_CONTEXT = ("context_aware", "seer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One quantity, the values that it takes, and the policies that are tried."""

    name: str
    title: str
    values: tuple[float | str, ...]
    base: float | str
    """What it is in the other sweeps."""
    policies: tuple[str, ...] = WITH_CONTEXT

    def keys(self, policy: str, value: float | str, num_seeds: int) -> list[Key]:
        """The rows of one point."""
        chunk_size, variant = 2048, f"{self.name}={value}"
        if self.name == "chunk size":
            chunk_size, variant = _effective(policy, int(value)), ""
        elif value == self.base or (self.policies == ("seer",) and policy == BASELINE):
            variant = ""
        return [
            Key(
                workload=WORKLOAD,
                policy=policy,
                chunk_size=chunk_size,
                seed=seed,
                variant=f"quarter {variant}".strip(),
            )
            for seed in range(num_seeds)
        ]


def _effective(policy: str, size: int) -> int:
    """Sizes that make no difference are one."""
    if policy == BASELINE:
        return 2048
    return min(size, SEER_CHUNK) if policy == "seer" else size


SWEEPS = (
    Sweep(
        name="chunk size",
        title="chunk size, tokens",
        values=(512, 1024, 2048, 4096, 8192, 16384),
        base=2048,
        policies=DIVIDED_POLICIES,
    ),
    Sweep(
        name="kv",
        title="KV memory over the calibrated one",
        values=(0.5, 0.75, 1.0, 1.5, 2.0, 3.0),
        base=1.0,
    ),
    Sweep(name="group size", title="group size", values=(4, 8, 16, 32, 64), base=16),
    Sweep(
        name="sigma within",
        title="sigma of log length within a group, total variance fixed",
        values=(0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
        base=0.2,
        policies=(*WITH_CONTEXT, "oracle"),
    ),
    Sweep(
        name="prior error",
        title="sigma of the error of prior log lengths",
        values=("no priors", 0.0, 0.5, 1.0, 2.0),
        base="no priors",
        policies=("seer",),
    ),
    Sweep(
        name="seer without",
        title="policy seer",
        values=(
            "as it is",
            "skips",
            "even end",
            "upper share",
            "short probe",
            "short chunk",
            "runaways",
            "closed groups",
        ),
        base="as it is",
        policies=("seer",),
    ),
    Sweep(
        name="fault",
        title="one of four instances",
        values=("none", "half as fast", "lost"),
        base="none",
        policies=DIVIDED_POLICIES,
    ),
)


_order_key = SeerPolicy.order_key


def _probe_to_its_end(policy: SeerPolicy, request: Waiting) -> OrderKey:
    """The paper's order of probes: always first, those with least before the others."""
    group, member = request.request_id.group, request.request_id.member
    return (0, request.num_generated, 0, 0, group) if not member else _order_key(policy, request)


WITHOUT = {
    "skips": (SeerPolicy, "max_skips", 0),
    "even end": (SeerPolicy, "end_game_spread", None),
    "upper share": (seer_policy, "UPPER_SHARE", 0.5),
    "short probe": (SeerPolicy, "order_key", _probe_to_its_end),
    "short chunk": (SeerPolicy, "chunk_tokens", Divided.chunk_tokens),
    "runaways": (runaways, "RUNAWAY_SHARE", 1e-300),
    "closed groups": (open_groups, "PROMPT_SHARE", math.inf),
}
"""What takes a part of the policy's place: the paper's way, the median, a chunk of 2048 tokens, no
runaways, all groups at once."""


def simulate_point(key: Key) -> Row:
    """Simulate the setting that a key's variant names."""
    name, _, value = key.variant.removeprefix("quarter").strip().partition("=")
    if name == "seer without":
        with patch.object(*WITHOUT[value]):
            return _simulate_point(key, "", "")
    return _simulate_point(key, name, value)


def _simulate_point(key: Key, name: str, value: str) -> Row:
    paper = _changed(_quarter(), name, value)
    setting = Setting(paper.cluster(), paper.workload(key.seed), None)
    faults: tuple[Fault, ...] = ()
    match name, value:
        case "prior error", sigma:
            setting = with_priors(setting, float(sigma), key.seed)
        case "fault", "half as fast":
            slow = replace(setting.cluster, slowdown={0: SLOW_FACTOR})
            setting = Setting(slow, setting.workload, None)
        case "fault", _:
            time_s = LOST_AT * lower_bounds(setting.cluster, setting.workload).total_s
            faults = (Fault(time_s=time_s, instance_id=0, kind="leave"),)
    return measure(key, setting, faults)


def with_priors(setting: Setting, sigma: float, seed: int) -> Setting:
    """Groups told a mean length from an earlier iteration that is wrong by exp(N(0, sigma²))."""
    groups = setting.workload.groups
    errors = np.exp(sigma * np.random.default_rng(seed).standard_normal(len(groups)))
    told = tuple(
        msgspec.structs.replace(group, prior_tokens=fmean(group.known_lengths) * error)
        for group, error in zip(groups, errors.tolist(), strict=True)
    )
    return Setting(setting.cluster, replace(setting.workload, groups=told), None)


def _quarter() -> PaperWorkload:
    return msgspec.structs.replace(
        find_paper_workload(WORKLOAD), num_instances=NUM_INSTANCES, num_requests=NUM_REQUESTS
    )


def _changed(paper: PaperWorkload, name: str, value: str) -> PaperWorkload:
    """What belongs to the workload or its calibration; the rest changes the setting."""
    match name:
        case "kv":
            return msgspec.structs.replace(paper, kv_share=paper.kv_share * float(value))
        case "group size":
            return msgspec.structs.replace(paper, group_size=int(value))
        case "sigma within":
            within = float(value)
            between = (paper.sigma_between**2 + paper.sigma_within**2 - within**2) ** 0.5
            return msgspec.structs.replace(paper, sigma_within=within, sigma_between=between)
    return paper


def plot(sweep: Sweep, rows: dict[Key, Row], num_seeds: int, directory: Path) -> None:
    """Mean and range of throughput, a line a policy, the baseline's too."""
    import matplotlib as mpl  # noqa: PLC0415 - an optional extra

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
    places = range(len(sweep.values))
    for policy in (BASELINE, *sweep.policies):
        points = [
            [rows[key].throughput_tokens_per_s / 1e3 for key in sweep.keys(policy, v, num_seeds)]
            for v in sweep.values
        ]
        means = [fmean(values) for values in points]
        low = [mean - min(values) for mean, values in zip(means, points, strict=True)]
        high = [max(values) - mean for mean, values in zip(means, points, strict=True)]
        axis.errorbar(places, means, (low, high), marker="o", capsize=2, label=policy)
    axis.set_xticks(places, [str(value) for value in sweep.values])
    axis.set(xlabel=sweep.title, ylabel="thousand tokens/s, simulated", ylim=0)
    axis.legend(fontsize="small")
    figure.savefig(directory / f"sweep_{sweep.name.replace(' ', '_')}.png", dpi=80)


def main() -> None:
    options = parse_options(__doc__ or "", seeds=3)
    seeds = options.seeds
    points = [
        (sweep, policy, value)
        for sweep in SWEEPS
        for value in sweep.values
        for policy in sweep.policies
    ]
    wanted = [
        key
        for sweep, policy, value in points
        for name in (BASELINE, policy)
        for key in sweep.keys(name, value, seeds)
    ]
    rows = simulate_all(wanted, options, simulate_point)
    entries = [
        ratio_entry(
            f"{sweep.name} {value}: {policy}",
            [rows[key] for key in sweep.keys(policy, value, seeds)],
            [rows[key] for key in sweep.keys(BASELINE, value, seeds)],
        )
        for sweep, policy, value in points
    ]
    report("Sweeps: throughput over group_round_robin's", entries, rows.values(), options)
    if options.plot is not None:
        for sweep in SWEEPS:
            plot(sweep, rows, seeds, Path(options.plot))


if __name__ == "__main__":
    main()
