"""The seam between the rollout and whatever generates tokens.

`EngineSpec` is configuration that knows how to become an `Engine`; `Engine` is one placed instance.
The rollout imports neither torch nor any engine: wiring happens where a spec is chosen.

Contract of an engine (checked by tests/support/conformance.py):
- Calls on one engine are carried out in the order they were made: a `move_kv` made before a `run`
  is done before that chunk's blocks are allocated.
- `run` admits first-come-first-served. When blocks run out the engine first frees KV that no
  running request uses (oldest first), then preempts the newest running request and recomputes it.
- KV state of a request at rest covers all tokens but the last one, which has been sampled but not
  fed. A chunk feeds that token first.
- A chunk that ends by `stop`, or with `keep_kv` false, frees the request's KV. The group's prompt
  KV stays until `DropKV` or until blocks run out.
- `run` raises InstanceLost when the instance is gone, EngineFailure when it failed otherwise.
- At most one chunk of a request is in flight.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from seer.drafting.config import DraftingConfig
from seer.types import (
    Chunk,
    ChunkProgress,
    ChunkResult,
    EngineInfo,
    KVMove,
    KVMoved,
    PoolAddress,
    RequestId,
    WeightUpdate,
)

OnProgress = Callable[[ChunkProgress], None]


class InstanceSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What one instance is told at launch."""

    instance_id: int
    pool: PoolAddress | None = None
    drafting: DraftingConfig = DraftingConfig()
    cpus: tuple[int, ...] = ()
    """Processors that its threads are pinned to; empty: not pinned, all of them."""


class Engine(Protocol):
    """One instance: a model placed on some devices, running chunks of many requests at once."""

    @property
    def info(self) -> EngineInfo:
        """Capacity and limits."""

    async def run(self, chunk: Chunk, on_progress: OnProgress) -> ChunkResult:
        """Generate one chunk. `on_progress` gets tokens as they come (batched, in order).

        The result repeats all tokens of the chunk.
        """

    async def move_kv(self, move: KVMove) -> KVMoved:
        """Copy a KV object to the pool, or free it."""

    async def abort(self, request_id: RequestId) -> None:
        """End the request's running chunk early; its `run` returns what was generated."""

    async def update_weights(self, update: WeightUpdate) -> None:
        """Replace the weights and drop all KV. Nothing may be in flight.

        Raises EngineFailure if chunks are in flight or the weights do not fit the model.
        """

    async def close(self) -> None:
        """Release everything; chunks in flight end with InstanceLost. Idempotent."""


class Tokenizer(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text."""

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Token ids of a chat and the generation prompt. InvalidInput without a template."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of generated tokens, special tokens left out."""


class EngineSpec(Protocol):
    """A chosen engine and its settings, before anything heavy is loaded."""

    def describe(self) -> EngineInfo:
        """Sizes and limits, from configuration files alone. Raises InvalidInput on bad settings."""

    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Start one instance. Raises EngineFailure when it does not come up."""
