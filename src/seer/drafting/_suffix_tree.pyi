# The native suffix tree (csrc/tree_bindings.cpp). Token arrays are contiguous; ids are from 0.

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class Cursor:
    @property
    def match_length(self) -> int: ...

class Tree:
    def __init__(self, max_depth: int) -> None: ...
    def set_prompt(self, tokens: NDArray[np.int32], weight: int) -> None: ...
    def append(self, sequence: int, prev_num_tokens: int, tokens: NDArray[np.int32]) -> int: ...
    def cursor(self, sequence: int, follow_own: bool) -> Cursor: ...
    def count(self, context: NDArray[np.int32], next_token: int) -> int: ...
    def check_integrity(self) -> None: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def num_sequences(self) -> int: ...
    @property
    def memory_usage(self) -> int: ...

def speculate_batch(
    cursors: Sequence[Cursor],
    max_nodes: NDArray[np.int32],
    top_k: int,
    min_probability: float,
    recency_weight: float,
    own_weight: float,
) -> tuple[
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.float32],
    NDArray[np.int32],
    NDArray[np.int32],
]: ...
