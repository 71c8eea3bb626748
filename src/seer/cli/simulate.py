"""`seer simulate`: policies on simulated machines, side by side; all its figures are simulated."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import msgspec
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from seer.cli.bench_report import spread
from seer.cli.json_rows import JsonRows
from seer.cli.messages import tell
from seer.cli.name_lists import names_by_commas
from seer.errors import InvalidInput
from seer.report.sources import find_trace
from seer.rollout.trace import TraceWriter
from seer.scheduling.placement import PlacementConfig
from seer.setting_fields import about
from seer.simulator.experiment import (
    Case,
    SimulationRow,
    controller_config,
    prepare_case,
    run_cases,
    simulate,
)

TABLE_WIDTH = 120


class SimulateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `seer simulate`."""

    workload: Annotated[
        str,
        about("moonlight, qwen2-vl-72b or kimi-k2 (paper Table 3), or a file of real lengths"),
    ] = "qwen2-vl-72b"
    policies: Annotated[str, about("policies to compare, by commas")] = (
        "group_round_robin,interleaved,divided,context_aware,seer,oracle"
    )
    group_size: Annotated[
        int | None, about("responses for each prompt (default: the paper's, or the file's)")
    ] = None
    chunk_size: Annotated[int, about("tokens of a chunk; 0: requests run whole")] = 2048
    kv_tokens: Annotated[
        int | None, about("tokens of KV that one instance holds (default: as calibrated)")
    ] = None
    instances: Annotated[
        int | None, about("instances (default: the paper's; 4 for a file of lengths)")
    ] = None
    max_running: Annotated[
        int | None, about("requests that one instance runs at once (default: as many as fit)")
    ] = None
    profile: Annotated[
        str | None, about("file of seer profile that times the steps (with a file of lengths)")
    ] = None
    max_tokens: Annotated[
        int | None, about("limit of a response (default: the longest of a file of lengths)")
    ] = None
    pool_bytes: Annotated[
        int | None, about("host memory for KV that leaves its instance, with a profile")
    ] = None
    handover_s: Annotated[
        float,
        about("seconds until a chunk that is to start has reached its instance, likewise"),
    ] = 0.0
    max_spread: Annotated[
        int, about("difference of running requests up to which cached KV decides the placement")
    ] = 32
    pull_gap_tokens: Annotated[
        int, about("cached tokens by which another instance must lead for KV to be moved")
    ] = 512
    seeds: Annotated[int, about("simulated iterations with different lengths")] = 1
    drafting: Annotated[Literal["on", "off", "vanilla"], about("drafts: on, off or vanilla")] = (
        "off"
    )
    acceptance: Annotated[
        str | None,
        about("trace of a rollout with drafts, or its directory: how often drafts are right"),
    ] = None
    jobs: Annotated[int, about("processes that share the seeds")] = 2
    json: Annotated[str | None, about("file for one JSON row a policy and seed")] = None
    trace: Annotated[str | None, about("directory for a trace of each policy, first seed")] = None

    def __post_init__(self) -> None:
        for name, least in (("seeds", 1), ("jobs", 1), ("chunk_size", 0)):
            if getattr(self, name) < least:
                raise InvalidInput(name, getattr(self, name), f"allowed: an integer >= {least}")
        for name in ("group_size", "kv_tokens", "instances", "max_running", "max_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(name, value, "allowed: an integer >= 1")
        names_by_commas("policies", self.policies)
        if self.acceptance is not None and self.drafting == "off":
            raise InvalidInput(
                "acceptance", self.acceptance, "allowed: with drafting on or vanilla, not off"
            )

    @property
    def policy_names(self) -> list[str]:
        """The policies in the order given."""
        return names_by_commas("policies", self.policies)

    def cases(self, seed: int) -> list[Case]:
        """One case a policy. Raises InvalidInput for unknown names, and without a trace there."""
        trace = None if self.acceptance is None else str(find_trace(self.acceptance))
        return [
            Case(
                workload=self.workload,
                policy=policy,
                seed=seed,
                drafting=self.drafting,
                group_size=self.group_size,
                chunk_size=self.chunk_size or None,
                kv_tokens=self.kv_tokens,
                instances=self.instances,
                max_running=self.max_running,
                profile=self.profile,
                max_tokens=self.max_tokens,
                pool_bytes=self.pool_bytes,
                handover_s=self.handover_s,
                acceptance=trace,
                placement=PlacementConfig(
                    max_spread=self.max_spread, pull_gap_tokens=self.pull_gap_tokens
                ),
            )
            for policy in self.policy_names
        ]


def run_simulate(settings: SimulateSettings) -> None:
    """Forecast a rollout: the same controller and policies on simulated machines."""
    cases = [settings.cases(seed) for seed in range(settings.seeds)]
    prepare_case(cases[0][0]).check()
    output = JsonRows(settings.json)
    tell(f"simulating {settings.workload}: {len(cases[0])} policies, {settings.seeds} seeds")
    rows: list[SimulationRow] = []
    with ProcessPoolExecutor(min(settings.jobs, settings.seeds)) as pool:
        for done in pool.map(run_cases, cases):
            rows += done
            output.append(done)
    if settings.trace is not None:
        _write_traces(cases[0], Path(settings.trace))
    console = Console(highlight=False)
    console.print(simulation_table(rows), width=max(console.width, TABLE_WIDTH))
    console.print(closing_note(rows, settings), soft_wrap=True)


def simulation_table(rows: Sequence[SimulationRow]) -> Table:
    """A row a policy: mean and range over seeds, in Markdown."""
    table = Table(box=MARKDOWN)
    table.add_column("simulated")
    for name in ("x grr", "x oracle", "total s", "tail s", "over bound", "preempted", "running"):
        table.add_column(name, justify="right")
    for policy in dict.fromkeys(row.policy for row in rows):
        own = [row for row in rows if row.policy == policy]
        table.add_row(
            policy,
            spread([row.ratio_to_group_round_robin for row in own]),
            spread([row.ratio_to_oracle for row in own]),
            spread([row.total_time_s for row in own]),
            spread([row.tail_time_s for row in own]),
            spread([row.total_time_s / row.lower_bound_s for row in own]),
            f"{fmean(row.preemptions for row in own):.0f}",
            f"{fmean(row.mean_running for row in own):.1f}",
        )
    return table


def closing_note(rows: Sequence[SimulationRow], settings: SimulateSettings) -> str:
    """What the columns mean, and the bound, in one paragraph."""
    bound = fmean(row.lower_bound_s for row in rows)
    return (
        f"simulated, {settings.workload}, drafting {settings.drafting}, {settings.seeds} seed(s): "
        "x grr is throughput over group_round_robin without drafts, x oracle over true lengths "
        f"longest first with the same drafting; no schedule can take less than {bound:.0f} s"
    )


def _write_traces(cases: Sequence[Case], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for case in cases:
        setting = prepare_case(case)
        with (directory / f"{case.policy}.jsonl").open("wb") as file:
            simulate(case, setting, TraceWriter(file, controller_config(case, setting)).write)
