"""One ragged step as the decoder sees it: rows of tokens, no padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seer.engines.serving.draft import ROOT, Draft
from seer.engines.serving.step_model import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """Tensors of a step. All int32 on the host but `token_ids`, which is on the device."""

    token_ids: Tensor
    """[rows] int64"""
    positions: Tensor
    """[rows]: place in the text"""
    slots: Tensor
    """[rows]: place of the KV under the sequence's block table"""
    seen: Tensor
    """[rows]: slots from the first that the row attends to"""
    also_seen: Tensor
    """[rows]: bits; where bit i is set the row attends to slot `seen + i` too"""
    row_seq: Tensor
    """[rows]: sequence of each row"""
    query_start: Tensor
    """[sequences + 1]"""
    block_table: Tensor
    """[sequences, widest table]"""
    logit_rows: Tensor | None
    """Rows whose logits are wanted (int64); None: all."""

    @property
    def num_rows(self) -> int:
        """Tokens fed."""
        return self.positions.shape[0]

    @property
    def num_seqs(self) -> int:
        """Sequences that feed them."""
        return self.block_table.shape[0]


def build_batch(sequences: Sequence[Rows], device: torch.device) -> StepBatch:
    """Lay the rows of several sequences end to end."""
    lengths = np.array([rows.num_rows for rows in sequences], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    total = int(starts[-1])
    first = np.array([rows.first_position for rows in sequences], dtype=np.int64)
    row_seq = np.repeat(np.arange(len(sequences)), lengths)
    slots = np.arange(total) - starts[row_seq] + first[row_seq]
    positions, seen, also_seen = slots.copy(), slots + 1, np.zeros(total, dtype=np.uint32)
    for rows, end in zip(sequences, starts[1:], strict=True):
        if not rows.draft.is_chain:
            nodes = slice(end - len(rows.draft), end)
            seen[nodes] = slots[nodes][0]
            positions[nodes] = slots[nodes][0] - 1 + np.array(rows.draft.depths)
            also_seen[nodes] = _path_bits(rows.draft)
    table = np.zeros((len(sequences), max(len(r.blocks) for r in sequences)), dtype=np.int32)
    for i, rows in enumerate(sequences):
        table[i, : len(rows.blocks)] = rows.blocks
    tokens = np.array(
        [token for r in sequences for part in (r.token_ids, r.draft.token_ids) for token in part],
        dtype=np.int64,
    )
    wanted = np.array([rows.num_logits for rows in sequences])
    return StepBatch(
        token_ids=torch.from_numpy(tokens).to(device),
        positions=torch.from_numpy(positions.astype(np.int32)),
        slots=torch.from_numpy(slots.astype(np.int32)),
        seen=torch.from_numpy(seen.astype(np.int32)),
        also_seen=torch.from_numpy(also_seen.view(np.int32)),
        row_seq=torch.from_numpy(row_seq.astype(np.int32)),
        query_start=torch.from_numpy(starts.astype(np.int32)),
        block_table=torch.from_numpy(table),
        logit_rows=_logit_rows(starts, lengths, wanted, device),
    )


def _path_bits(draft: Draft) -> list[int]:
    """For each node, the bits of its ancestors and its own: bit i is node i."""
    bits: list[int] = []
    for node, parent in enumerate(draft.parents):
        bits.append((0 if parent == ROOT else bits[parent]) | 1 << node)
    return bits


def _logit_rows(
    starts: np.ndarray, lengths: np.ndarray, wanted: np.ndarray, device: torch.device
) -> Tensor | None:
    if (wanted == lengths).all():
        return None
    rows = [np.arange(end - n, end) for end, n in zip(starts[1:], wanted, strict=True)]
    return torch.from_numpy(np.concatenate(rows)).to(device)
