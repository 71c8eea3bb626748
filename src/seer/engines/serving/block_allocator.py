"""Which KV blocks are free."""


class BlockAllocator:
    """Free list of block numbers. Last freed is first reused: it is still in the caches."""

    def __init__(self, num_blocks: int) -> None:
        self._free = list(range(num_blocks - 1, -1, -1))
        self.num_blocks = num_blocks

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    def can_allocate(self, count: int) -> bool:
        """Whether `count` blocks are free."""
        return count <= len(self._free)

    def allocate(self, count: int) -> list[int]:
        """Take `count` free blocks; the caller has asked `can_allocate`."""
        assert self.can_allocate(count)  # noqa: S101 - our own invariant
        if count == 0:
            return []
        taken = self._free[-count:][::-1]
        del self._free[-count:]
        return taken

    def free(self, blocks: list[int]) -> None:
        """Give blocks back."""
        self._free.extend(reversed(blocks))
