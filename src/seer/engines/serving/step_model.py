"""What a step loop needs of whatever computes tokens: block memory and one step of work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from seer.engines.serving.step_plan import Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Tokens that one sequence feeds in a step, and where its KV lies."""

    token_ids: Sequence[int]
    first_position: int
    blocks: Sequence[int]
    """Block table covering every position up to the last row's."""
    num_logits: int
    """Rows, counted from the last, whose logits are wanted: each gets a token drawn after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Tokens drawn in a step, one for each row that wanted logits, in order."""

    token_ids: list[int]
    logprobs: list[float]


class BlockMemory(Protocol):
    """KV memory in blocks."""

    @property
    def num_blocks(self) -> int:
        """Blocks that may be handed out."""

    def read_block(self, block: int) -> memoryview:
        """Bytes of a block."""

    def write_block(self, block: int, payload: memoryview) -> None:
        """Replace the bytes of a block."""

    def copy_block(self, source: int, target: int) -> None:
        """Copy one block over another."""


class StepModel(Protocol):
    """A model on one device. One step loop owns it; nothing here need be thread-safe."""

    @property
    def memory(self) -> BlockMemory:
        """Its KV memory."""

    @property
    def eos_token_ids(self) -> Sequence[int]:
        """Token ids that end a response."""

    def salt(self, weight_version: int) -> bytes:
        """What names its KV: equal salts mean that blocks may be exchanged byte for byte."""

    def load(self, path: str) -> None:
        """Take other weights. Raises InvalidInput when they do not fit."""

    def step(self, planned: "Sequence[Planned]") -> Draws:
        """Feed all rows, write their KV, and draw a token after each row that wants logits.

        Draws of one sequence stand at consecutive places, the first at the end of its text.
        """

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, for stop strings."""
