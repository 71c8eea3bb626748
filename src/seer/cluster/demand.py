"""What a session asks of a cluster, held against what is there. Pure."""

from collections.abc import Sequence

import msgspec

from seer.errors import InvalidInput

SERVICE_CPUS = 0.01
"""Of a draft server or pool node: they wait for messages most of the time."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """Processors and accelerators, of one bundle or free on one node."""

    cpus: float = 0.0
    gpus: float = 0.0

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs and {self.gpus:g} GPUs"

    @property
    def bundle(self) -> dict[str, float]:
        """As Ray names them."""
        return {"CPU": self.cpus} | ({"GPU": self.gpus} if self.gpus else {})

    def holds(self, other: "Resources") -> bool:
        """Whether the other fits into this, up to rounding (Ray counts in 1/10000)."""
        return other.cpus <= self.cpus + 1e-4 and other.gpus <= self.gpus + 1e-4

    def times(self, count: int) -> "Resources":
        """Of several alike."""
        return Resources(cpus=self.cpus * count, gpus=self.gpus * count)


def check_demand(
    num_instances: int, each: Resources, num_services: int, nodes: Sequence[Resources]
) -> None:
    """Raise InvalidInput, saying what is asked and what is there, unless it can be placed.

    `nodes` are the resources of each node, in all or free. An instance lies on one node as a whole.
    """
    free = Resources(cpus=sum(n.cpus for n in nodes), gpus=sum(n.gpus for n in nodes))
    there = "; ".join(str(node) for node in nodes) or "nothing"
    of_instances = each.times(num_instances)
    asked = Resources(cpus=of_instances.cpus + SERVICE_CPUS * num_services, gpus=of_instances.gpus)
    num_fitting = sum(_num_fitting(each, node, num_instances) for node in nodes)
    if free.holds(asked) and num_fitting >= num_instances:
        return
    wanted = f"{num_instances} instances of {each} each"
    if num_services:
        wanted += f" and {num_services} x {SERVICE_CPUS} CPUs for draft servers and pool nodes"
    raise InvalidInput(
        "cluster",
        wanted,
        f"there is room for {min(num_fitting, num_instances)} such instances on {len(nodes)} nodes "
        f"with {there}; take fewer instances, a smaller instance_cpus or "
        "instance_gpus, or a larger cluster",
    )


def _num_fitting(each: Resources, node: Resources, most: int) -> int:
    count = 0
    while count < most and node.holds(each.times(count + 1)):
        count += 1
    return count
