"""Simulated comparisons: a case is a workload, a policy, drafting and a seed; a row its result."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from seer.costmodel.profile_file import Profile, ProfiledEngine, read_profile
from seer.errors import InvalidInput
from seer.kvpool.slots import slot_bytes
from seer.rollout.controller_config import ControllerConfig
from seer.rollout.trace import read_trace
from seer.scheduling.placement import PlacementConfig
from seer.scheduling.policies import ORACLE, POLICY_NAMES
from seer.simulator.acceptance_fit import fit_acceptance
from seer.simulator.baselines import partial_rollout, streamrl_oracle
from seer.simulator.bounds import lower_bounds
from seer.simulator.cluster import Cluster
from seer.simulator.length_files import read_workload
from seer.simulator.paper_workloads import PAPER_WORKLOADS, PaperWorkload, find_paper_workload
from seer.simulator.simulation import Fault, OnRecord, Simulation, SimulationResult
from seer.simulator.speculation import Acceptance
from seer.simulator.workload import Workload

Drafting = Literal["off", "on", "vanilla"]
"""`on` drafts from the group's texts, `vanilla` from each request's own alone."""
BASELINE = "group_round_robin"
STREAMRL, PARTIAL = "streamrl_oracle", "partial_rollout"
SIMULATED_POLICIES = (*POLICY_NAMES, STREAMRL, PARTIAL)
FILE_SCALE = "qwen2-vl-72b"
"""Whose cluster a workload from a file is put on, scaled to the same pressure on memory."""
FILE_INSTANCES = 4
POOL_CAPACITIES = 4
"""Host pool of a profiled cluster, in times what its instances hold."""
LOCAL_BYTES_PER_S = 1e9
"""Copies of KV, where a profile has not measured them."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated. Raises InvalidInput for names that are not known."""

    workload: str
    """One of `PAPER_WORKLOADS`, or a file of lengths."""
    policy: str
    seed: int = 0
    drafting: Drafting = "off"
    group_size: int | None = None
    """None: the paper's. Not for files."""
    chunk_size: int | None = 2048
    kv_tokens: int | None = None
    """KV tokens an instance; None: as fitted."""
    instances: int | None = None
    """None: the paper's, or `FILE_INSTANCES`."""
    max_running: int | None = None
    """Requests that an instance runs at once; None: no bound to speak of."""
    profile: str | None = None
    """File of `seer profile` that times the steps; for a file of lengths."""
    max_tokens: int | None = None
    """Limit of a response; None: the paper's, or the file's longest."""
    pool_bytes: int | None = None
    """Host memory of the KV pool, with a profile; None: `POOL_CAPACITIES`."""
    handover_s: float = 0.0
    """From the decision to start a chunk until it has reached its instance, with a profile."""
    acceptance: str | None = None
    """Trace of a real rollout whose drafts are simulated, if there is drafting; None: the
    paper's."""
    placement: PlacementConfig = PlacementConfig()

    def __post_init__(self) -> None:
        if self.policy not in SIMULATED_POLICIES:
            allowed = f"allowed: {', '.join(SIMULATED_POLICIES)}"
            raise InvalidInput("policy", self.policy, allowed)
        if self.workload not in PAPER_WORKLOADS and not Path(self.workload).is_file():
            known = ", ".join(PAPER_WORKLOADS)
            raise InvalidInput("workload", self.workload, f"allowed: {known}, or a file of lengths")
        if self.workload in PAPER_WORKLOADS:
            self._refuse_beside_paper()
        elif self.group_size is not None:
            allowed = "allowed: with a named workload; a file has its own groups"
            raise InvalidInput("group_size", self.group_size, allowed)
        if self.profile is not None and self.kv_tokens is None:
            allowed = "allowed: a number, as a profile does not know the memory"
            raise InvalidInput("kv_tokens", None, allowed)
        self._check_machine()

    def _refuse_beside_paper(self) -> None:
        if self.profile is not None:
            allowed = "allowed: with a file of lengths; a named workload has its own machines"
            raise InvalidInput("profile", self.profile, allowed)
        if self.max_tokens is not None:
            allowed = "allowed: with a file of lengths; a named workload has its own limit"
            raise InvalidInput("max_tokens", self.max_tokens, allowed)

    def _check_machine(self) -> None:
        """What only a profiled machine has."""
        if self.pool_bytes is not None and (self.profile is None or self.pool_bytes < 0):
            allowed = "allowed: an integer >= 0, with a profile"
            raise InvalidInput("pool_bytes", self.pool_bytes, allowed)
        if self.handover_s and (self.profile is None or not self.handover_s >= 0):
            raise InvalidInput("handover_s", self.handover_s, "allowed: >= 0, with a profile")


class SimulationRow(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one case. All figures are simulated."""

    workload: str
    policy: str
    group_size: int
    drafting: str
    seed: int
    throughput_tokens_per_s: float = 0.0
    total_time_s: float = 0.0
    tail_time_s: float = 0.0
    preemptions: int = 0
    ratio_to_group_round_robin: float = 0.0
    """Throughput over that of group_round_robin without drafts, same seed."""
    ratio_to_oracle: float = 0.0
    """Throughput over that of oracle with the same drafting, same seed."""
    lower_bound_s: float = 0.0
    """Time that no schedule can beat with this drafting."""
    mean_running: float = 0.0
    """Requests running an instance."""
    kv_bytes_moved: int = 0
    idle_share: float = 0.0
    """Of the total time, after an instance's last chunk, averaged over instances."""
    finish_gap_share: float = 0.0
    """Between the first and the last instance to finish, of the total time."""


class Setting(msgspec.Struct, frozen=True):
    """A case made ready: the machines, what they have to do, and the drafts."""

    cluster: Cluster
    workload: Workload
    acceptance: Acceptance | None

    def check(self) -> None:
        """Raise InvalidInput unless an instance holds each request up to its limit."""
        self.cluster.check_holds(self.workload)


def prepare_case(case: Case) -> Setting:
    """The cluster and workload of a case. Raises InvalidInput on a bad file."""
    if case.workload in PAPER_WORKLOADS:
        paper = find_paper_workload(case.workload)
        cluster = paper.cluster(case.kv_tokens)
        workload = paper.workload(case.seed, case.group_size)
    else:
        paper = find_paper_workload(FILE_SCALE)
        workload = read_workload(Path(case.workload), case.max_tokens)
        if case.profile is not None:
            cluster = profiled_cluster(read_profile(Path(case.profile)), case)
        else:
            cluster = scaled_cluster(paper, workload, case.kv_tokens)
    cluster = replace(
        cluster,
        num_instances=case.instances or cluster.num_instances,
        max_running=case.max_running or cluster.max_running,
    )
    return Setting(cluster, workload, _acceptance(case, paper))


def _acceptance(case: Case, paper: PaperWorkload) -> Acceptance | None:
    if case.drafting == "off":
        return None
    is_grouped = case.drafting == "on"
    if case.acceptance is None:
        return paper.acceptance(grouped=is_grouped)
    fitted = fit_acceptance(read_trace(Path(case.acceptance)), case.acceptance)
    return replace(fitted, grouped=is_grouped)


def profiled_cluster(profile: Profile, case: Case) -> Cluster:
    """Instances like the one that was profiled. Raises InvalidInput without its KV size."""
    engine = profile.engine
    if not engine.kv_bytes_per_token:
        allowed = "allowed: a profile with kv_bytes_per_token; measure it again"
        raise InvalidInput("profile", case.profile, allowed)
    assert case.kv_tokens is not None  # noqa: S101 - checked with the case
    copy = profile.kv_copy
    slowest = min(copy.export_bytes_per_s, copy.load_bytes_per_s) if copy else LOCAL_BYTES_PER_S
    return Cluster(
        num_instances=FILE_INSTANCES,
        kv_tokens=case.kv_tokens,
        step_time=profile.step_time,
        kv_bytes_per_token=engine.kv_bytes_per_token,
        block_size=engine.block_size,
        pool_host_tokens=_pool_tokens(case, engine),
        transfer_bytes_per_s=slowest,
        takes_between_steps=True,
        handover_s=case.handover_s,
    )


def _pool_tokens(case: Case, engine: ProfiledEngine) -> int:
    """Tokens that the pool's host memory holds, in slots as the real one has them."""
    if case.pool_bytes is None:
        return POOL_CAPACITIES * FILE_INSTANCES * (case.kv_tokens or 0)
    block_bytes = round(engine.kv_bytes_per_token * engine.block_size)
    return case.pool_bytes // slot_bytes(block_bytes) * engine.block_size


def scaled_cluster(
    paper: PaperWorkload, workload: Workload, kv_tokens: int | None = None
) -> Cluster:
    """A few of the paper's instances whose memory is as scarce for this workload as it was there.

    Scarcity is tokens to be made over tokens that fit at once, and an instance keeps room for the
    longest request. Step times stay as they are.
    """
    whole = paper.cluster()
    scarcity = paper.num_requests * paper.mean_tokens / (whole.num_instances * whole.kv_tokens)
    fitting = int(workload.output_tokens / (FILE_INSTANCES * scarcity))
    kv = kv_tokens or max(fitting, workload.max_context_tokens + 2 * paper_block(workload))
    return Cluster(
        num_instances=FILE_INSTANCES,
        kv_tokens=kv,
        step_time=whole.step_time,
        kv_bytes_per_token=whole.kv_bytes_per_token,
        block_size=paper_block(workload),
        pool_host_tokens=whole.pool_host_tokens,
        transfer_bytes_per_s=whole.transfer_bytes_per_s,
    )


def paper_block(workload: Workload) -> int:
    """Block size in proportion to lengths, so that short real traces are not all rounding."""
    return 64 if workload.max_context_tokens > 16_384 else 16  # noqa: PLR2004 - vLLM's is 16


def controller_config(case: Case, setting: Setting) -> ControllerConfig:
    """What the controller is told."""
    return ControllerConfig(
        policy=BASELINE if case.policy in {STREAMRL, PARTIAL} else case.policy,
        chunk_size=case.chunk_size,
        placement=case.placement,
        num_host_slots=setting.cluster.pool_host_tokens // setting.cluster.block_size,
        num_disk_slots=setting.cluster.pool_disk_tokens // setting.cluster.block_size,
    )


def simulate(
    case: Case,
    setting: Setting,
    on_record: OnRecord | None = None,
    *,
    faults: Sequence[Fault] = (),
) -> SimulationResult:
    """Run one case of the controller's own policies, or StreamRL-Oracle."""
    cluster, workload = setting.cluster, setting.workload
    config = controller_config(case, setting)
    if case.policy == STREAMRL:
        plan = streamrl_oracle(cluster, workload)
        return Simulation(
            cluster,
            plan.workload,
            config,
            acceptance=setting.acceptance,
            static_policy=plan.policy,
            max_running=plan.limits,
            faults=faults,
            on_record=on_record,
        ).run()
    return Simulation(
        cluster,
        workload,
        config,
        acceptance=setting.acceptance,
        faults=faults,
        on_record=on_record,
    ).run()


def run_cases(cases: Sequence[Case]) -> list[SimulationRow]:
    """Cases that differ in policy and drafting only; baseline and oracle are simulated once."""
    throughput: dict[tuple[str, Drafting], float] = {}
    rows = []
    for case in cases:
        setting = prepare_case(case)
        row = _row(case, setting)
        throughput[case.policy, case.drafting] = row.throughput_tokens_per_s
        rows.append(row)
    return [_with_ratios(case, row, throughput) for case, row in zip(cases, rows, strict=True)]


def _with_ratios(
    case: Case, row: SimulationRow, throughput: dict[tuple[str, Drafting], float]
) -> SimulationRow:
    def of(policy: str, drafting: Drafting) -> float:
        if (policy, drafting) not in throughput:
            other = msgspec.structs.replace(case, policy=policy, drafting=drafting)
            result = simulate(other, prepare_case(other))
            throughput[policy, drafting] = result.metrics.throughput_tokens_per_s
        return throughput[policy, drafting]

    return msgspec.structs.replace(
        row,
        ratio_to_group_round_robin=row.throughput_tokens_per_s / of(BASELINE, "off"),
        ratio_to_oracle=row.throughput_tokens_per_s / of(ORACLE, case.drafting),
    )


def _row(case: Case, setting: Setting) -> SimulationRow:
    if case.policy == PARTIAL:
        return _partial_row(case, setting)
    result = simulate(case, setting)
    metrics = result.metrics
    return msgspec.structs.replace(
        _empty_row(case, setting),
        throughput_tokens_per_s=metrics.throughput_tokens_per_s,
        total_time_s=metrics.total_time_s,
        tail_time_s=metrics.tail_time_s,
        preemptions=metrics.preemptions,
        mean_running=metrics.mean_running / setting.cluster.num_instances,
        kv_bytes_moved=metrics.kv_bytes_moved,
        idle_share=result.idle_share,
        finish_gap_share=result.finish_gap_share,
    )


def _partial_row(case: Case, setting: Setting) -> SimulationRow:
    """Partial rollout over several iterations: tokens made over time; its tail is cut off."""
    partial = partial_rollout(setting.cluster, setting.workload, setting.acceptance)
    return msgspec.structs.replace(
        _empty_row(case, setting),
        throughput_tokens_per_s=partial.output_tokens / partial.total_time_s,
        total_time_s=partial.total_time_s / partial.num_iterations,
        preemptions=partial.preemptions // partial.num_iterations,
    )


def _empty_row(case: Case, setting: Setting) -> SimulationRow:
    bounds = lower_bounds(setting.cluster, setting.workload, setting.acceptance)
    return SimulationRow(
        workload=setting.workload.name,
        policy=case.policy,
        group_size=setting.workload.groups[0].group_size,
        drafting=case.drafting,
        seed=case.seed,
        lower_bound_s=bounds.total_s,
    )
