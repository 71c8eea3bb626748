"""The three workloads of paper Table 3, with the clusters that they ran on.

Given by the paper: model, hardware, layout, instances, requests, group size, mean and limit of
lengths. Fitted, to the veRL column of the paper alone (total time, tail share; for qwen2-vl-72b
also preemptions, idle share and finish gap): the two sigmas of log length, the share of the free
GPU memory that holds KV (the rest belongs to the trainer that shares the GPUs), and one factor on
the roofline's step time. docs/simulator.md says how, and how far the fit is off.
"""

import msgspec

from seer.costmodel.hardware import find_hardware
from seer.costmodel.layout import kv_capacity_tokens, parse_layout
from seer.costmodel.models import find_model
from seer.costmodel.roofline import roofline
from seer.errors import InvalidInput
from seer.simulator.cluster import Cluster
from seer.simulator.length_model import draw_lengths, make_groups
from seer.simulator.speculation import Acceptance
from seer.simulator.workload import Workload

HARDWARE = "h800"
TRANSFER_BYTES_PER_S_PER_GPU = 12.5e9
"""Between a GPU and the pool: a quarter of a 400 Gb/s link (paper section 6), as an assumption."""
BLOCK_SIZE = 256


class PaperWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """One column of paper Table 3 and what was fitted for it."""

    name: str
    model: str
    layout: str
    num_instances: int
    num_requests: int
    group_size: int
    """In the paper's main runs."""
    mean_tokens: int
    max_tokens: int
    num_prompt_tokens: int
    """# Paper silent: prompt lengths. A page of mathematics; an image and a question."""
    sigma_between: float
    sigma_within: float
    kv_share: float
    slowdown: float
    acceptance_scale: float
    """Times the tokens gained a step of Table 2, from the acceptance lengths of Fig 11."""

    def cluster(self, kv_tokens: int | None = None) -> Cluster:
        """The instances; `kv_tokens` an instance instead of the fitted amount."""
        model, hardware = find_model(self.model), find_hardware(HARDWARE)
        layout = parse_layout(self.layout)
        free_tokens = kv_capacity_tokens(model, hardware, layout)
        return Cluster(
            num_instances=self.num_instances,
            kv_tokens=kv_tokens or int(free_tokens * self.kv_share),
            step_time=roofline(model, hardware, layout).slowed(self.slowdown),
            kv_bytes_per_token=model.kv_bytes_per_token,
            block_size=BLOCK_SIZE,
            pool_host_tokens=self._pool_tokens(),
            transfer_bytes_per_s=TRANSFER_BYTES_PER_S_PER_GPU * layout.num_gpus,
        )

    def workload(self, seed: int, group_size: int | None = None) -> Workload:
        """One iteration; the number of requests stays when the group size changes."""
        size = group_size or self.group_size
        lengths = draw_lengths(
            max(1, self.num_requests // size),
            size,
            mean_tokens=self.mean_tokens,
            max_tokens=self.max_tokens,
            sigma_between=self.sigma_between,
            sigma_within=self.sigma_within,
            seed=seed,
        )
        return Workload(
            name=self.name,
            groups=make_groups(
                lengths, num_prompt_tokens=self.num_prompt_tokens, max_tokens=self.max_tokens
            ),
        )

    def acceptance(self, *, grouped: bool = True) -> Acceptance:
        """How many draft tokens are accepted."""
        return Acceptance(scale=self.acceptance_scale, grouped=grouped)

    def _pool_tokens(self) -> int:
        """1 TB of host memory for each 8 GPUs (paper section 6.7)."""
        gpus = self.num_instances * parse_layout(self.layout).num_gpus
        return int(1e12 * gpus / 8 / find_model(self.model).kv_bytes_per_token)


PAPER_WORKLOADS = {
    each.name: each
    for each in (
        PaperWorkload(
            name="moonlight",
            model="moonlight-16b-a3b",
            layout="tp1",
            num_instances=32,
            num_requests=3200,
            group_size=8,
            mean_tokens=22_386,
            max_tokens=65_536,
            num_prompt_tokens=300,
            sigma_between=1.0,
            sigma_within=0.22,
            kv_share=0.35,
            slowdown=1.272,
            acceptance_scale=0.77,
        ),
        PaperWorkload(
            name="qwen2-vl-72b",
            model="qwen2-vl-72b",
            layout="tp8",
            num_instances=16,
            num_requests=9600,
            group_size=16,
            mean_tokens=7_615,
            max_tokens=40_960,
            num_prompt_tokens=1_200,
            sigma_between=1.12,
            sigma_within=0.20,
            kv_share=0.35,
            slowdown=1.172,
            acceptance_scale=1.0,
        ),
        PaperWorkload(
            name="kimi-k2",
            model="kimi-k2",
            layout="dp32+ep32",
            num_instances=8,
            num_requests=6400,
            group_size=8,
            mean_tokens=38_959,
            max_tokens=98_304,
            num_prompt_tokens=300,
            sigma_between=0.81,
            sigma_within=0.21,
            kv_share=0.25,
            slowdown=1.431,
            acceptance_scale=0.67,
        ),
    )
}


def find_paper_workload(name: str) -> PaperWorkload:
    """The workload of that name. Raises InvalidInput for an unknown one."""
    if name not in PAPER_WORKLOADS:
        raise InvalidInput("workload", name, f"allowed: {', '.join(PAPER_WORKLOADS)}, or a file")
    return PAPER_WORKLOADS[name]
