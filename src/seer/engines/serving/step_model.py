"""What a step loop needs of whatever computes tokens: block memory and one step of work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from seer.costmodel.step_time import StepTime
from seer.engines.serving.draft import NO_DRAFT, Draft

if TYPE_CHECKING:
    from seer.engines.serving.step_plan import Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Tokens that one sequence feeds in a step, and where its KV lies.

    The rows are `token_ids`, then the nodes of `draft`. Row i writes its KV to slot
    `first_position + i` of the block table, also where its place in the text is an earlier one
    because it is a node of a tree.
    """

    token_ids: Sequence[int]
    """At least one."""
    first_position: int
    blocks: Sequence[int]
    """Block table covering the slots of all rows."""
    samples: bool
    """Whether a token is drawn after the last of `token_ids`, and after each node."""
    draft: Draft = NO_DRAFT
    """Guesses of what follows; only where a token is drawn."""

    @property
    def num_rows(self) -> int:
        """Tokens fed."""
        return len(self.token_ids) + len(self.draft)

    @property
    def num_logits(self) -> int:
        """Rows, counted from the last, after each of which a token is drawn."""
        return 1 + len(self.draft) if self.samples else 0


@dataclass(frozen=True, slots=True)
class TokenMove:
    """KV of one token to be copied from one place to another."""

    source_block: int
    source_offset: int
    target_block: int
    target_offset: int


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

        The first draw of a sequence stands at the end of its text, the others behind its guesses.
        """

    def move_tokens(self, moves: Sequence[TokenMove]) -> None:
        """Copy the KV of single tokens within its memory, one after the other."""

    def step_time(self) -> StepTime:
        """How long its steps take here; may be measured when this is called."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens, for stop strings."""
