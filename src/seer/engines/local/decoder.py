"""The forward pass: embedding, decoder layers, logits of the rows that want them."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import embedding

from seer.engines.local.batch import StepBatch
from seer.engines.local.ops import Ops
from seer.engines.local.weights import DecoderWeights

Forward = Callable[[StepBatch], Tensor]


class Decoder:
    """One model over one KV cache."""

    def __init__(self, weights: DecoderWeights, ops: Ops) -> None:
        self._weights = weights
        self._ops = ops

    def __call__(self, batch: StepBatch) -> Tensor:
        """Write the rows' KV and return the wanted logits [rows, vocab] in the engine's dtype."""
        self._ops.begin(batch)
        return self.logits(batch.token_ids, batch.logit_rows)

    def logits(self, token_ids: Tensor, logit_rows: Tensor | None = None) -> Tensor:
        """Logits of all rows, or of `logit_rows`, of the step begun in `ops`."""
        hidden = self._hidden(token_ids)
        return self._weights.head(hidden if logit_rows is None else hidden[logit_rows])

    @torch.inference_mode()
    def _hidden(self, token_ids: Tensor) -> Tensor:
        """Normed last hidden states [rows, hidden]."""
        weights, ops = self._weights, self._ops
        layers = weights.layers
        residual = embedding(token_ids, weights.embedding)
        x = ops.norm(residual, layers[0].input_norm)
        for i, layer in enumerate(layers):
            x = layer.output(ops.attend(i, layer, layer.qkv(x)))
            x = ops.add_norm(x, residual, layer.post_norm)
            x = layer.down(ops.silu_mul(layer.gate_up(x)))
            following = layers[i + 1].input_norm if i + 1 < len(layers) else weights.final_norm
            x = ops.add_norm(x, residual, following)
        return x
