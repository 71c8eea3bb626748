"""Block-paged KV memory of one instance.

Memory is block-major, [num_blocks, layers, key+value elements of 32 tokens], so that one block is
one contiguous run of bytes: what an export copies and a load writes, bit for bit. How a layer's
part is laid out inside is the business of the attention operations.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from seer.engines.local.model_config import ModelConfig


class KVCache:
    """KV memory in blocks. Zeroed at the start: attention multiplies masked values by zero.

    One block more than `num_blocks` is allocated: padding rows of CUDA graphs write there.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.num_blocks = num_blocks
        self.layer_elements = config.kv_elements_per_token * block_tokens
        self.memory = torch.zeros(
            num_blocks + 1, config.num_layers, self.layer_elements, dtype=dtype, device=device
        )

    def read_block(self, block: int) -> memoryview:
        """Bytes of a block: a view on a CPU, a copy elsewhere."""
        return self._bytes(block).data

    def write_block(self, block: int, payload: memoryview) -> None:
        """Replace the bytes of a block."""
        data = torch.frombuffer(payload, dtype=torch.uint8)
        self.memory[block].view(-1).view(torch.uint8).copy_(data)

    def copy_block(self, source: int, target: int) -> None:
        """Copy one block over another."""
        self.memory[target].copy_(self.memory[source])

    def _bytes(self, block: int) -> NDArray[np.uint8]:
        return self.memory[block].view(-1).view(torch.uint8).cpu().numpy()
