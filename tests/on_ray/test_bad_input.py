"""What is refused before anything is started."""

import asyncio
import socket

import pytest

pytest.importorskip("ray")


from seer.cluster.ray_cluster import RayCluster
from seer.engines.process import ProcessSpec
from seer.engines.scripted import ScriptedSpec
from seer.errors import InvalidInput
from seer.rollout.config import RolloutConfig
from seer.rollout.rollout import Rollout


def _open(site: RayCluster) -> None:
    async def run() -> None:
        config = RolloutConfig(engine=ProcessSpec(inner=ScriptedSpec()), site=site)
        async with Rollout(config):
            pass

    asyncio.run(run())


@pytest.mark.parametrize("address", ["ray://head:10001", "head", "127.0.0.1:port"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """With what an address looks like."""
    with pytest.raises(InvalidInput, match=f"ray_address: got {address!r}; allowed: host:port"):
        _open(RayCluster(address=address))


def test_an_address_at_which_nobody_listens_is_refused() -> None:
    """At once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(InvalidInput, match=f"{address}.*no Ray cluster answers there"):
        _open(RayCluster(address=address))
