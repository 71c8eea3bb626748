"""Ray on this machine: one for all tests of a module that asks for it."""

from collections.abc import Iterator

import pytest

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """A connection that rollouts use and leave as it is."""
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=80 * 2**20,
    )
    yield
    ray.shutdown()
