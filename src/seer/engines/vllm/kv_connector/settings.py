"""How vLLM is told to move KV through the pool, or through its own Mooncake connector.

Imports no vLLM.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from seer.types import PoolAddress

if TYPE_CHECKING:
    from seer.engines.vllm.spec import VllmSpec

_POOL = "seer_pool"


def transfer_arguments(spec: "VllmSpec", pool: PoolAddress | None) -> dict[str, Any]:
    """Arguments for the way in which the spec wants KV moved."""
    if spec.kv_connector == "mooncake_store":
        return mooncake_store_arguments()
    return pool_arguments(spec, pool) if pool is not None else {}


def pool_arguments(spec: "VllmSpec", pool: PoolAddress) -> dict[str, Any]:
    """Arguments for KV that moves through the pool; none where it cannot.

    A pool without slots moves nothing. Nor does tensor parallelism yet: each rank holds a part of
    every block, and the pool's slots are for whole ones.
    """
    has_slots = pool.num_host_slots or pool.num_disk_slots or pool.remote is not None
    if not has_slots or spec.tensor_parallel > 1:
        return {}
    return {
        "kv_transfer_config": {
            "kv_connector": "SeerPoolConnector",
            "kv_connector_module_path": "seer.engines.vllm.kv_connector.connector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {_POOL: msgspec.to_builtins(pool)},
        }
    }


def mooncake_store_arguments() -> dict[str, Any]:
    """Arguments for vLLM's own MooncakeStoreConnector, blocks of generated tokens included.

    It needs CUDA, and `MOONCAKE_CONFIG_PATH` naming Mooncake's configuration file in the
    environment. Not run: there was no such device.
    """
    return {
        "kv_transfer_config": {
            "kv_connector": "MooncakeStoreConnector",
            "kv_role": "kv_both",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"save_decode_cache": True},
        }
    }


def pool_address(extra_config: dict[str, Any]) -> PoolAddress:
    """The pool that `pool_arguments` named."""
    return msgspec.convert(extra_config[_POOL], PoolAddress)
