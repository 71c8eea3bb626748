"""Cases made ready and simulated."""

from dataclasses import replace

import pytest

from seer.costmodel.step_time import SurfaceStepTime
from seer.rollout.events import KVSpilled
from seer.rollout.trace import TraceRecord
from seer.simulator.cluster import Cluster
from seer.simulator.experiment import Case, Setting, controller_config, simulate
from seer.simulator.length_model import draw_lengths, make_groups
from seer.simulator.simulation import Fault
from seer.simulator.workload import Workload

CLUSTER = Cluster(
    num_instances=2,
    kv_tokens=1024,
    step_time=SurfaceStepTime(fixed_s=0.01, per_request_s=1e-3, prefill_per_token_s=1e-4),
    kv_bytes_per_token=1000,
    block_size=16,
    pool_host_tokens=512,
    transfer_bytes_per_s=1e9,
)
LENGTHS = draw_lengths(
    12, 4, mean_tokens=120, max_tokens=400, sigma_between=0.7, sigma_within=0.4, seed=0
)
WORKLOAD = Workload(name="small", groups=make_groups(LENGTHS, num_prompt_tokens=20, max_tokens=400))
CASE = Case(workload="moonlight", policy="context_aware", chunk_size=32)


def test_a_pool_with_a_disk_spills_to_it() -> None:
    """The controller is told how many blocks the disk holds; by default there is none."""
    setting = Setting(replace(CLUSTER, pool_disk_tokens=8000), WORKLOAD, None)
    records: list[TraceRecord] = []
    simulate(CASE, setting, records.append)
    assert controller_config(CASE, setting).num_disk_slots == 500
    assert any(isinstance(record.event, KVSpilled) for record in records)
    assert controller_config(CASE, Setting(CLUSTER, WORKLOAD, None)).num_disk_slots == 0


def test_a_lost_instance_is_idle_from_then_on() -> None:
    """Its time after the loss is idle, and it is the first to finish."""
    setting = Setting(CLUSTER, WORKLOAD, None)
    calm = simulate(CASE, setting)
    hit = simulate(CASE, setting, faults=[Fault(time_s=2.0, instance_id=1, kind="leave")])
    assert hit.metrics.instances_lost == 1
    assert hit.last_busy_s[1] <= 2.0
    assert hit.idle_share == pytest.approx(hit.finish_gap_share / 2)
    assert hit.idle_share > calm.idle_share >= 0
