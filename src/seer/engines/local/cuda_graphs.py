"""Decode steps as CUDA graphs: one graph for each (batch, table width) bucket.

A decode step of a small batch is bound by kernel launches; replaying a captured graph removes
them. Only steps in which every sequence feeds one token are captured (shapes are static there);
all others run eagerly. Padding sequences write to, and read from, the spare block that the cache
keeps behind those it hands out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from seer.engines.local.batch import StepBatch
from seer.engines.local.decoder import Decoder
from seer.engines.local.ops import Ops
from seer.engines.local.spec import BLOCK_TOKENS
from seer.engines.local.torch_ops import TorchOps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Graph:
    graph: torch.cuda.CUDAGraph
    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    table: Tensor
    logits: Tensor


class GraphedDecoder:
    """A Decoder that replays graphs for pure decode steps."""

    def __init__(self, decoder: Decoder, ops: Ops) -> None:
        assert isinstance(ops, TorchOps)  # noqa: S101 - what CUDA runs on
        self._decoder = decoder
        self._ops = ops
        self._graphs: dict[tuple[int, int], _Graph] = {}

    def __call__(self, batch: StepBatch) -> Tensor:
        """Logits of the wanted rows."""
        if batch.num_rows != batch.num_seqs or batch.logit_rows is not None:
            return self._decoder(batch)
        size = _bucket(batch.num_seqs)
        width = _bucket(batch.block_table.shape[1])
        if (size, width) not in self._graphs:
            self._graphs[size, width] = self._capture(size, width)
        graph = self._graphs[size, width]
        self._fill(graph, batch)
        graph.graph.replay()
        return graph.logits[: batch.num_seqs]

    def _capture(self, size: int, width: int) -> _Graph:
        ops, device = self._ops, self._ops.device
        spare = ops.spare_block
        tensors = {
            "token_ids": torch.zeros(size, dtype=torch.long, device=device),
            "positions": torch.zeros(size, dtype=torch.long, device=device),
            "slots": torch.full((size,), spare * BLOCK_TOKENS, device=device),
            "table": torch.full((size, width), spare, device=device),
        }
        ops.bind(tensors["positions"], tensors["slots"], tensors["table"])
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # warm-up: allocations and autotuning stay out of the graph
            for _ in range(2):
                self._decoder.logits(tensors["token_ids"])
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._decoder.logits(tensors["token_ids"])
        return _Graph(graph=graph, logits=logits, **tensors)

    def _fill(self, graph: _Graph, batch: StepBatch) -> None:
        """Copy the step into the graph's inputs; rows past it keep to the spare block."""
        count, width = batch.block_table.shape
        spare = self._ops.spare_block
        table = batch.block_table.long()
        slots = batch.slots.long()
        blocks = table.gather(1, (slots // BLOCK_TOKENS)[:, None])[:, 0]
        graph.token_ids[:count].copy_(batch.token_ids)
        graph.positions.zero_()
        graph.positions[:count].copy_(batch.positions)
        graph.slots.fill_(spare * BLOCK_TOKENS)
        graph.slots[:count].copy_(blocks * BLOCK_TOKENS + slots % BLOCK_TOKENS)
        graph.table.fill_(spare)
        graph.table[:count, :width].copy_(table)


def _bucket(n: int) -> int:
    """The next power of two."""
    return 1 << (n - 1).bit_length()
