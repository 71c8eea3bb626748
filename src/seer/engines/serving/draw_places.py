"""Where the draws of a step stand in their texts, and the uniform numbers that decide them.

A number depends on its place alone (`engines/keyed.py`), so a token drawn after a right guess is
the token that a step without guesses would have drawn there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.engines.keyed import uniforms_batch
from seer.engines.serving.step_plan import Planned
from seer.types import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawPlaces:
    """One entry a draw, in the order of the rows that want logits."""

    chunks: list[Chunk]
    positions: NDArray[np.int64]
    """Places in the requests' outputs."""

    def uniforms(self) -> NDArray[np.float64]:
        """The number in [0, 1) of each draw."""
        return uniforms_batch(
            np.array([c.sampling.seed for c in self.chunks], dtype=np.int64),
            np.array([c.sampling_group for c in self.chunks], dtype=np.int64),
            np.array([c.request_id.member for c in self.chunks], dtype=np.int64),
            self.positions,
        )


def draw_places(planned: Sequence[Planned]) -> DrawPlaces:
    """The draws that a step asks for."""
    chunks: list[Chunk] = []
    positions: list[int] = []
    for item in planned:
        count = item.rows.num_logits
        first = len(item.run.token_ids) - item.run.num_prompt
        chunks += [item.run.chunk] * count
        positions += [first, *(first + depth for depth in item.rows.draft.depths)][:count]
    return DrawPlaces(chunks=chunks, positions=np.array(positions, dtype=np.int64))
