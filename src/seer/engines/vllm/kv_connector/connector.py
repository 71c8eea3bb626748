"""vLLM's KV connector over Seer's pool: a request goes on in another process where it left off.

vLLM makes one in its scheduler, which decides (`planner.py`), and one in each worker, which copies.
Keys are the pool's salted hash chain: salted with the model, the layout of a block, and vLLM's
`cache_salt`, which carries the weight version. A block that turns out to be missing or spoilt when
it is read is computed (`kv_load_failure_policy`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
)
from vllm.v1.request import RequestStatus

from seer.engines.vllm.kv_connector.block_bytes import KVBlocks
from seer.engines.vllm.kv_connector.planner import Copy, CopyPlanner, StepCopies
from seer.engines.vllm.kv_connector.settings import pool_address
from seer.errors import InvalidInput
from seer.kvpool.hashed_pool import HashedPool

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.forward_context import ForwardContext
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.request import Request

_GOES_ON = {RequestStatus.FINISHED_LENGTH_CAPPED, RequestStatus.FINISHED_ABORTED}


@dataclass
class SeerPoolMetadata(KVConnectorMetadata):  # type: ignore[misc]  # vLLM is not typed
    """What the scheduler tells the worker in a step."""

    copies: StepCopies = field(default_factory=StepCopies)


class SeerPoolConnector(KVConnectorBase_V1):  # type: ignore[misc]  # vLLM is not typed
    """Either side; vLLM calls each side's methods only. Its documentation says when."""

    def __init__(
        self, vllm_config: "VllmConfig", role: KVConnectorRole, kv_cache_config: "KVCacheConfig"
    ) -> None:
        """Raises InvalidInput for models whose layers do not share one table of blocks."""
        super().__init__(vllm_config, role, kv_cache_config)
        if len(kv_cache_config.kv_cache_groups) != 1:
            groups = len(kv_cache_config.kv_cache_groups)
            raise InvalidInput("pool", f"{groups} kinds of KV", "allowed: models with one kind")
        transfer = vllm_config.kv_transfer_config
        assert transfer is not None  # noqa: S101 - it named this class
        address = pool_address(transfer.kv_connector_extra_config)
        self._pool = HashedPool.open(address)
        self._payload_bytes = address.payload_bytes
        self._num_blocks = kv_cache_config.num_blocks
        block_tokens = vllm_config.cache_config.block_size
        self._planner = CopyPlanner(
            self._pool, block_tokens, _fingerprint(vllm_config, address.payload_bytes)
        )
        self._blocks: KVBlocks | None = None
        self._saved: set[str] = set()
        self._spoilt: set[int] = set()

    # ---------------------------------------------------------------- in the scheduler

    def get_num_new_matched_tokens(
        self, request: "Request", num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Tokens that the pool has; they are read in the step that starts the request."""
        tokens = request.all_token_ids[:]
        match = self._planner.match(
            request.request_id, tokens, request.cache_salt, num_computed_tokens
        )
        return match, False

    def update_state_after_alloc(
        self, request: "Request", blocks: "KVCacheBlocks", num_external_tokens: int
    ) -> None:
        """Note where the matched blocks are to be put."""
        (block_ids,) = blocks.get_block_ids()
        self._planner.load(request.request_id, block_ids, num_external_tokens)

    def build_connector_meta(self, scheduler_output: "SchedulerOutput") -> KVConnectorMetadata:
        """Hand the worker its copies."""
        del scheduler_output
        return SeerPoolMetadata(self._planner.take_step())

    def request_finished(
        self, request: "Request", block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """Keep the blocks until they are saved, where the request may go on."""
        self._planner.forget(request.request_id)
        if request.status not in _GOES_ON:
            return False, None
        is_saved = self._planner.finish(
            request.request_id,
            request.all_token_ids[:],
            request.cache_salt,
            block_ids,
            request.num_computed_tokens,
        )
        return is_saved, None

    def reset_cache(self) -> bool | None:
        """Nothing to do: new weights have another salt."""
        return True

    # ---------------------------------------------------------------- in the worker

    def register_kv_caches(self, kv_caches: Mapping[str, torch.Tensor]) -> None:
        """Take the layers' KV."""
        self._blocks = KVBlocks(kv_caches, self._num_blocks, self._payload_bytes)

    def start_load_kv(self, forward_context: "ForwardContext", **kwargs: Any) -> None:
        """Read the step's blocks: the forward pass after it uses them."""
        del forward_context, kwargs
        for copy in self._copies().loads.values():
            self._load(copy)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """All layers are there already."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Nothing is saved while it is computed."""

    def wait_for_save(self) -> None:
        """Write the blocks of requests that have ended."""
        for name, copy in self._copies().saves.items():
            self._pool.write(copy.keys, map(self._need_blocks().read, copy.block_ids))
            self._saved.add(name)

    def get_finished(
        self, finished_req_ids: Sequence[str] | set[str]
    ) -> tuple[set[str] | None, set[str] | None]:
        """Requests whose blocks vLLM may free now."""
        del finished_req_ids
        saved, self._saved = self._saved, set()
        return saved or None, None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks of this step that were not in the pool after all."""
        spoilt, self._spoilt = self._spoilt, set()
        return spoilt

    def shutdown(self) -> None:
        """Detach."""
        self._pool.close()

    def _load(self, copy: Copy) -> None:
        blocks = self._need_blocks()
        num_read = 0
        for block_id, payload in zip(copy.block_ids, self._pool.read(copy.keys), strict=False):
            blocks.write(block_id, payload)
            num_read += 1
        self._spoilt.update(copy.block_ids[num_read:])

    def _need_blocks(self) -> KVBlocks:
        assert self._blocks is not None  # noqa: S101 - vLLM registers before the first step
        return self._blocks

    def _copies(self) -> StepCopies:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, SeerPoolMetadata)  # noqa: S101 - made by our other side
        return metadata.copies


def _fingerprint(vllm_config: "VllmConfig", payload_bytes: int) -> bytes:
    """Names what makes equal tokens have equal blocks, but for the weight version."""
    model = vllm_config.model_config
    parts = (
        model.model,
        str(model.dtype),
        str(vllm_config.cache_config.cache_dtype),
        vllm_config.cache_config.block_size,
        payload_bytes,
    )
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
