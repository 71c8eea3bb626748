"""Baselines that are no policy of the controller, set up as the paper describes them (section 6).

StreamRL-Oracle: groups are sorted by true length and dealt to instances in buckets; a group stays
whole and is never preempted, so an instance runs no more requests at once than fit at their full
lengths; long groups thus run in small batches. Partial rollout (APRIL): twice the groups are
started, the rollout stops when the wanted number is complete, and the rest goes on in the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from seer.rollout.controller_config import ControllerConfig
from seer.simulator.cluster import Cluster
from seer.simulator.simulation import Simulation, SimulationResult
from seer.simulator.speculation import Acceptance
from seer.simulator.workload import Workload
from seer.types import GroupSpec, RequestId


class Dealt:
    """A static policy that follows a plan made beforehand, longest group first."""

    def __init__(self, instance_of: dict[int, int]) -> None:
        self._instance_of = instance_of

    def deal(self, request_ids: Sequence[RequestId], instance_ids: Sequence[int]) -> list[int]:
        """The planned instance; another one when it is gone."""
        planned = [self._instance_of[request_id.group] for request_id in request_ids]
        return [i if i in instance_ids else instance_ids[i % len(instance_ids)] for i in planned]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRLPlan:
    """A workload in its order, where each group goes, and each instance's concurrency."""

    workload: Workload
    policy: Dealt
    limits: dict[int, int]


def streamrl_oracle(cluster: Cluster, workload: Workload) -> StreamRLPlan:
    """Sort, cut into buckets, one an instance.

    Buckets take equal shares of the work, which is a request's tokens times the memory that it
    holds on average: so buckets of long groups have fewer groups. # Paper silent: bucket sizes.
    """
    ordered = sorted(workload.groups, key=lambda g: -max(g.known_lengths))
    total = sum(_work(group) for group in ordered)
    instance_of: dict[int, int] = {}
    limits: dict[int, int] = {}
    done = 0.0
    for group in ordered:
        instance = min(int(done / total * cluster.num_instances), cluster.num_instances - 1)
        instance_of[group.group_id] = instance
        longest = group.num_prompt_tokens + max(group.known_lengths)
        limits.setdefault(instance, max(1, cluster.kv_tokens // longest))
        done += _work(group)
    renumbered = {group.group_id: i for i, group in enumerate(ordered)}
    groups = tuple(replace(g, group_id=renumbered[g.group_id]) for g in ordered)
    return StreamRLPlan(
        workload=Workload(name=workload.name, groups=groups),
        policy=Dealt({renumbered[g]: i for g, i in instance_of.items()}),
        limits=limits,
    )


def _work(group: GroupSpec) -> float:
    return sum(length * (group.num_prompt_tokens + length / 2) for length in group.known_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialRollout:
    """Totals over several iterations of partial rollout."""

    num_iterations: int
    output_tokens: int
    total_time_s: float
    preemptions: int
    finished_lengths: tuple[int, ...]
    """Lengths of the responses that the first iteration hands to training."""


def partial_rollout(
    cluster: Cluster,
    workload: Workload,
    acceptance: Acceptance | None = None,
    num_iterations: int = 5,
) -> PartialRollout:
    """Iterations that start with what the last one left; new groups repeat the workload's.

    What a response has already is prefilled again when it goes on: the weights have changed.
    """
    wanted = len(workload.groups)
    left: list[GroupSpec] = []
    next_group = 0
    tokens = preemptions = 0
    time_s = 0.0
    lengths: list[int] = []
    for _ in range(num_iterations):
        fresh = [workload.groups[(next_group + i) % wanted] for i in range(2 * wanted - len(left))]
        next_group += len(fresh)
        groups = tuple(replace(g, group_id=i) for i, g in enumerate([*left, *fresh]))
        iteration = Workload(name=workload.name, groups=groups)
        config = ControllerConfig(policy="group_round_robin")
        result = Simulation(
            cluster, iteration, config, acceptance=acceptance, stop_after_groups=wanted
        ).run()
        time_s += result.metrics.total_time_s
        preemptions += result.metrics.preemptions
        tokens += sum(result.generated.values())
        unfinished = [g for g in groups if not _is_done(g, result)]
        finished = [g for g in groups if _is_done(g, result)]
        lengths = lengths or [length for g in finished for length in g.known_lengths]
        left = [_rest(g, result) for g in unfinished]
    return PartialRollout(
        num_iterations=num_iterations,
        output_tokens=tokens,
        total_time_s=time_s,
        preemptions=preemptions,
        finished_lengths=tuple(lengths),
    )


def _is_done(group: GroupSpec, result: SimulationResult) -> bool:
    return all(RequestId(group.group_id, m) in result.finish_s for m in range(group.group_size))


def _rest(group: GroupSpec, result: SimulationResult) -> GroupSpec:
    """What is left of a group: its unfinished members, each with what it still has to generate.

    Members are averaged in their prompts, as a group has one prompt length.
    """
    ids = [RequestId(group.group_id, member) for member in range(group.group_size)]
    open_ids = [r for r in ids if r not in result.finish_s]
    done = [result.generated.get(r, 0) for r in open_ids]
    lengths = tuple(
        max(1, group.known_lengths[r.member] - d) for r, d in zip(open_ids, done, strict=True)
    )
    mean_done = sum(done) // len(done)
    return replace(
        group,
        group_size=len(lengths),
        known_lengths=lengths,
        num_prompt_tokens=group.num_prompt_tokens + mean_done,
        max_tokens=max(group.max_tokens - mean_done, *lengths, 1),
    )
