"""What is asked of a cluster, held against what is there."""

import re

import pytest

from seer.cluster.demand import Resources, check_demand
from seer.cluster.ray_cluster import RayCluster
from seer.errors import InvalidInput

ONE = Resources(cpus=1)
GPU = Resources(cpus=4, gpus=1)


@pytest.mark.parametrize(
    ("count", "each", "services", "nodes"),
    [
        (2, ONE, 0, [Resources(cpus=2)]),
        (2, ONE, 1, [Resources(cpus=2.01)]),
        (4, GPU, 0, [Resources(cpus=8, gpus=8), Resources(cpus=64, gpus=2)]),
        (20, Resources(cpus=0.1), 0, [Resources(cpus=2)]),
    ],
)
def test_what_fits_is_taken(
    count: int, each: Resources, services: int, nodes: list[Resources]
) -> None:
    """Also where fractions add up to just what is there."""
    check_demand(count, each, services, nodes)


@pytest.mark.parametrize(
    ("count", "each", "services", "nodes", "message"),
    [
        (3, ONE, 0, [Resources(cpus=2)], "3 instances of 1 CPUs and 0 GPUs each"),
        (3, ONE, 0, [Resources(cpus=2)], "room for 2 such instances on 1 nodes with 2 CPUs"),
        (2, ONE, 1, [Resources(cpus=2)], "and 1 x 0.01 CPUs for draft servers and pool nodes"),
        (1, GPU, 0, [Resources(cpus=3, gpus=8), Resources(cpus=64)], "room for 0 such instances"),
        (1, ONE, 0, [], "on 0 nodes with nothing"),
    ],
)
def test_what_does_not_fit_is_refused(
    count: int, each: Resources, services: int, nodes: list[Resources], message: str
) -> None:
    """An instance lies on one node: the sum over nodes is not enough."""
    with pytest.raises(InvalidInput, match=re.escape(message)):
        check_demand(count, each, services, nodes)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instance_cpus", 0.0),
        ("instance_gpus", -1.0),
        ("strategy", "ANY"),
        ("draft_servers", 0),
        ("pool_nodes", -1),
        ("max_instances", 0),
    ],
)
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    """Each with the value."""
    with pytest.raises(InvalidInput, match=f"{field}: got {value!r}"):
        RayCluster(**{field: value})  # type: ignore[arg-type]
