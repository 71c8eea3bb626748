"""Accelerators: what their makers state, and the shares of it that kernels reach.

Every achievable fraction is a field, so a user can replace it (`msgspec.structs.replace`).
"""

import math

import msgspec

from seer.errors import InvalidInput


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator, with its links to the others. Bandwidths are of one direction.

    Raises InvalidInput on a number that is not positive and on a fraction above 1.
    """

    name: str
    source: str
    memory_bytes: float
    memory_bytes_per_s: float
    bf16_flops: float
    """Dense bfloat16 FLOP/s."""
    fp8_flops: float
    """Dense FP8 FLOP/s (bfloat16's where there is no FP8)."""
    link_bytes_per_s: float
    """To the GPUs of the same node."""
    network_bytes_per_s: float
    """To other nodes."""
    gpus_per_node: int
    weight_fraction: float = 0.8
    """Share of the memory bandwidth that reading weights reaches."""
    kv_fraction: float = 0.8
    """Share of the memory bandwidth that reading KV reaches."""
    compute_fraction: float = 0.6
    """Share of the FLOP/s that products and attention reach."""
    link_fraction: float = 0.8
    """Share of link and network bandwidth that collectives reach."""
    collective_s: float = 10e-6
    """Latency of one all-reduce within a node."""
    exchange_s: float = 30e-6
    """Latency of one all-to-all (dispatch or combine)."""
    usable_memory_fraction: float = 0.9
    """Memory for weights and KV; the rest is for activations, graphs and the runtime."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str):
                continue
            if not (math.isfinite(value) and value > 0):
                raise InvalidInput(name, value, "allowed: a number > 0")
            if name.endswith("_fraction") and value > 1:
                raise InvalidInput(name, value, "allowed: 0 < fraction <= 1")

    @property
    def weight_bytes_per_s(self) -> float:
        """Memory bandwidth reached when weights are read."""
        return self.memory_bytes_per_s * self.weight_fraction

    @property
    def kv_bytes_per_s(self) -> float:
        """Memory bandwidth reached when KV is read."""
        return self.memory_bytes_per_s * self.kv_fraction

    @property
    def usable_bytes(self) -> float:
        """Memory for weights and KV."""
        return self.memory_bytes * self.usable_memory_fraction

    def flops(self, weight_bytes: float) -> float:
        """FLOP/s reached by products with weights of so many bytes a parameter."""
        peak = self.fp8_flops if weight_bytes <= 1 else self.bf16_flops
        return peak * self.compute_fraction

    def exchange_bytes_per_s(self, num_gpus: int) -> float:
        """Bandwidth that a collective over `num_gpus` reaches for each."""
        one_node = num_gpus <= self.gpus_per_node
        return (
            self.link_bytes_per_s if one_node else self.network_bytes_per_s
        ) * self.link_fraction


_H100 = Hardware(
    name="h100",
    source="nvidia.com/en-us/data-center/h100 (SXM; dense rates are half of those with sparsity)",
    memory_bytes=80e9,
    memory_bytes_per_s=3.35e12,
    bf16_flops=989e12,
    fp8_flops=1979e12,
    link_bytes_per_s=450e9,
    network_bytes_per_s=50e9,
    gpus_per_node=8,
)

HARDWARE = {
    each.name: each
    for each in (
        _H100,
        msgspec.structs.replace(
            _H100,
            name="h800",
            source="H100 with NVLink cut to 400 GB/s, both ways together (arXiv:2505.09343)",
            link_bytes_per_s=200e9,
        ),
        msgspec.structs.replace(
            _H100,
            name="h200",
            source="nvidia.com/en-us/data-center/h200 (SXM)",
            memory_bytes=141e9,
            memory_bytes_per_s=4.8e12,
        ),
        Hardware(
            name="cpu-2core",
            source="measured on two cores of an AMD EPYC (Zen 5), docs/log.md of 2026-12-01: "
            "44 GB/s summing an array, 0.6 TFLOP/s of bfloat16 products, 27 of 44 GB/s reading KV",
            memory_bytes=24e9,
            memory_bytes_per_s=44e9,
            bf16_flops=0.6e12,
            fp8_flops=0.6e12,
            link_bytes_per_s=10e9,
            network_bytes_per_s=1e9,
            gpus_per_node=1,
            weight_fraction=1.0,
            kv_fraction=0.6,
            compute_fraction=1.0,
        ),
    )
}
"""The hardware known by name."""


def find_hardware(name: str) -> Hardware:
    """Known hardware. Raises InvalidInput, listing the known names."""
    if name not in HARDWARE:
        raise InvalidInput("hardware", name, f"allowed: {', '.join(sorted(HARDWARE))}")
    return HARDWARE[name]
