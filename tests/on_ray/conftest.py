"""Ray on this machine: one for all tests of the directory that do not bring their own."""

from collections.abc import Iterator

import pytest

ray = pytest.importorskip("ray")


@pytest.fixture(scope="session")
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
