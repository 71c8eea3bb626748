"""vLLM's KV tensors as blocks of bytes: a block's payload is its part of every layer, in turn."""

from collections.abc import Mapping
from itertools import accumulate

import torch

from seer.errors import EngineFailure


class KVBlocks:
    """Reads and writes whole blocks of all layers."""

    def __init__(
        self, layers: Mapping[str, torch.Tensor], num_blocks: int, payload_bytes: int
    ) -> None:
        """Raises EngineFailure when the tensors are not blocks of `payload_bytes` in all."""
        self._blocks = [_by_block(name, layers[name], num_blocks) for name in sorted(layers)]
        sizes = [blocks[0].numel() * blocks.element_size() for blocks in self._blocks]
        if sum(sizes) != payload_bytes:
            raise EngineFailure(
                f"a KV block of vLLM's has {sum(sizes)} bytes, of the pool {payload_bytes}"
            )
        self._staging = torch.empty(payload_bytes, dtype=torch.uint8)
        ends = list(accumulate(sizes))
        self._parts = [
            self._staging[end - size : end] for size, end in zip(sizes, ends, strict=True)
        ]

    def read(self, block_id: int) -> memoryview:
        """The payload of a block, valid until the next call."""
        for part, blocks in zip(self._parts, self._blocks, strict=True):
            part.view(blocks.dtype).view(blocks[block_id].shape).copy_(blocks[block_id])
        return self._staging.numpy().data

    def write(self, block_id: int, payload: memoryview) -> None:
        """Replace a block."""
        self._staging.numpy().data[:] = payload
        for part, blocks in zip(self._parts, self._blocks, strict=True):
            blocks[block_id].copy_(part.view(blocks.dtype).view(blocks[block_id].shape))


def _by_block(name: str, layer: torch.Tensor, num_blocks: int) -> torch.Tensor:
    """A view of a layer's KV whose first dimension counts blocks."""
    for dimension in range(min(2, layer.dim())):  # some GPU layouts put keys and values first
        if layer.shape[dimension] == num_blocks:
            return layer.movedim(dimension, 0)
    raise EngineFailure(f"KV of layer {name}: no dimension of {list(layer.shape)} counts blocks")
