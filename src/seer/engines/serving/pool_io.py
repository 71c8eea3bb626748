"""Copying KV objects between an instance's blocks and the pool's slots, bit for bit.

Every block travels under the salted hash chain of the tokens it covers, so a slot that holds
anything else (other tokens, other weights, another layout, a torn write) reads as missing.
"""

from collections.abc import Sequence

from seer.engines.serving.chunk_run import Costs
from seer.engines.serving.kv_objects import PromptKV, RequestKV
from seer.engines.serving.step_model import BlockMemory
from seer.kvpool.keys import chain_keys
from seer.kvpool.pool import PoolClient
from seer.types import KVMoved, PoolEntry, Tier


class PoolIO:
    """Exports and loads of one instance."""

    def __init__(
        self, pool: PoolClient, memory: BlockMemory, block_tokens: int, salt: bytes
    ) -> None:
        self._pool = pool
        self._memory = memory
        self._block_tokens = block_tokens
        self._salt = salt
        self._block_bytes = len(memory.read_block(0))

    def export_prompt(self, prompt: PromptKV, tier: Tier, slots: Sequence[int]) -> KVMoved:
        """Write a filled prompt to `slots`."""
        if not prompt.is_filled or len(slots) != len(prompt.blocks):
            return KVMoved(key=prompt.key, ok=False)
        return self._export(prompt, prompt.token_ids, prompt.blocks, tier, slots)

    def export_request(self, kv: RequestKV, tier: Tier, slots: Sequence[int]) -> KVMoved:
        """Write a request's own blocks to `slots`."""
        tokens = kv.token_ids[: kv.filled]
        if kv.filled < kv.prompt.num_tokens or len(slots) != self._own_blocks(kv):
            return KVMoved(key=kv.key, ok=False)
        return self._export(kv, tokens, kv.blocks[: len(slots)], tier, slots)

    def load_prompt(self, prompt: PromptKV, entry: PoolEntry, costs: Costs) -> None:
        """Fill a prompt from the pool as far as its slots hold what is expected."""
        prompt.filled = self._load(prompt.token_ids, 0, prompt.blocks, entry, costs)
        costs.num_loaded_tokens += prompt.filled

    def load_request(self, kv: RequestKV, entry: PoolEntry, costs: Costs) -> None:
        """Take a request's own blocks from the pool as far as they hold what is expected."""
        covered = kv.token_ids[: min(entry.num_tokens, len(kv.token_ids) - 1)]
        shared = kv.prompt.num_tokens // self._block_tokens
        filled = self._load(covered, shared, kv.blocks, entry, costs)
        if filled > kv.filled and filled >= kv.prompt.num_tokens:
            costs.num_loaded_tokens += filled - shared * self._block_tokens
            kv.filled = filled

    def _export(
        self,
        owner: PromptKV | RequestKV,
        tokens: Sequence[int],
        blocks: Sequence[int],
        tier: Tier,
        slots: Sequence[int],
    ) -> KVMoved:
        keys = chain_keys(tokens, self._block_tokens, self._salt)[-len(blocks) :] if blocks else []
        payloads = (self._memory.read_block(block) for block in blocks)
        if not self._pool.write_blocks(tier, slots, keys, len(tokens), payloads):
            return KVMoved(key=owner.key, ok=False)
        return KVMoved(
            key=owner.key,
            ok=True,
            num_tokens=len(tokens),
            num_bytes=len(blocks) * self._block_bytes,
        )

    def _load(
        self,
        tokens: Sequence[int],
        first_block: int,
        blocks: Sequence[int],
        entry: PoolEntry,
        costs: Costs,
    ) -> int:
        """Read slots into `blocks`, stopping at the first bad one; returns tokens covered."""
        keys = chain_keys(tokens, self._block_tokens, self._salt)[first_block:]
        wanted = list(zip(entry.slots, blocks, keys, strict=False))
        slots, keys = [slot for slot, _, _ in wanted], [key for _, _, key in wanted]
        filled = first_block * self._block_tokens
        num_read = 0
        for payload in self._pool.read_blocks(entry.tier, slots, keys):
            self._memory.write_block(wanted[num_read][1], payload)
            num_read += 1
            costs.num_loaded_bytes += self._block_bytes
            filled = min(len(tokens), filled + self._block_tokens)
        costs.num_load_failures += num_read < len(wanted)
        return filled

    def _own_blocks(self, kv: RequestKV) -> int:
        shared = kv.prompt.num_tokens // self._block_tokens
        return -(-kv.filled // self._block_tokens) - shared
