"""Which steps `seer profile` measures."""

import msgspec

from seer.costmodel.points import MIN_STEP_POINTS
from seer.engines.local.spec import BLOCK_TOKENS
from seer.errors import InvalidInput

PREFILL_TOKENS = (32, 128, 256)
"""Prompt tokens of one step; the local engine computes up to 256."""


class ProfilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The steps to measure: every batch with every context and width."""

    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    """KV tokens that each request has."""
    widths: tuple[int, ...]
    """Tokens that each request feeds."""
    threads: int = 1
    repeats: int = 5

    def __post_init__(self) -> None:
        for name, least, fewest in (("batches", 1, 2), ("contexts", 0, 2), ("widths", 1, 1)):
            values = getattr(self, name)
            if len(set(values)) < fewest or min(values) < least:
                raise InvalidInput(
                    name, values, f"allowed: whole numbers >= {least}, {fewest} or more different"
                )
        for name in ("threads", "repeats"):
            if getattr(self, name) < 1:
                raise InvalidInput(name, getattr(self, name), "allowed: an integer >= 1")
        if len(self.cases) < MIN_STEP_POINTS:
            raise InvalidInput(
                "batches",
                f"{len(self.cases)} steps of batches x contexts x widths",
                f"allowed: at least {MIN_STEP_POINTS}",
            )

    @property
    def cases(self) -> list[tuple[int, int, int]]:
        """(batch, context, width) of each step."""
        return [
            (batch, context, width)
            for batch in sorted(set(self.batches))
            for context in sorted(set(self.contexts))
            for width in sorted(set(self.widths))
        ]

    @property
    def prefill_cases(self) -> list[tuple[int, int]]:
        """(tokens, context) of each prefill, at no context and at the longest."""
        return [(n, context) for context in (0, max(self.contexts)) for n in PREFILL_TOKENS]

    @property
    def max_length(self) -> int:
        """Tokens of the longest request."""
        return max(self.contexts) + max(*self.widths, *PREFILL_TOKENS)

    @property
    def kv_tokens(self) -> int:
        """KV memory that all measurements fit in."""
        longest = -(-self.max_length // BLOCK_TOKENS) * BLOCK_TOKENS
        return longest * max(self.batches)
