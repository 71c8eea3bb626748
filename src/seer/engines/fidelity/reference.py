"""The reference: what transformers computes for the same tokens, in float32.

An engine in half precision has other weights than the file says, rounded ones. So has the
reference then; it computes with them in float32. What is left between the two is the rounding of
the engine's own arithmetic.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from seer.engines.fidelity.response import Response
from seer.engines.fidelity.scores import TokenScores, joined, score_tokens
from seer.errors import InvalidInput
from seer.types import SamplingParams

_LOGITS_BYTES = 96 * 2**20
"""Memory for the logits of one forward pass; scoring takes a few times as much."""


class Reference:
    """A model directory in Hugging Face format, loaded by transformers."""

    def __init__(self, model: str, dtype: str) -> None:
        """`dtype` is the engine's: float32, bfloat16 or float16.

        Raises InvalidInput when transformers cannot load the directory.
        """
        transformers_logging.disable_progress_bar()
        try:
            self._model = AutoModelForCausalLM.from_pretrained(
                model, dtype=torch.float32, local_files_only=True
            ).eval()
        except (OSError, ValueError) as error:
            allowed = f"allowed: a directory that transformers loads ({error})"
            raise InvalidInput("model", model, allowed) from error
        if dtype != "float32":
            with torch.no_grad():
                for parameter in self._model.parameters():
                    parameter.copy_(parameter.to(getattr(torch, dtype)))

    def score(self, responses: Sequence[Response], sampling: SamplingParams) -> TokenScores:
        """Scores of all tokens of all responses, in order."""
        vocab = self._model.config.vocab_size
        parts = []
        for batch in _batches(responses, _LOGITS_BYTES // (4 * vocab)):
            logits = self._logits(batch)
            tokens = np.concatenate([np.asarray(each.token_ids, np.int64) for each in batch])
            parts.append(score_tokens(logits, tokens, sampling))
        return joined(parts)

    @torch.inference_mode()
    def _logits(self, batch: Sequence[Response]) -> NDArray[np.float32]:
        """(tokens of the batch, vocabulary), before each token."""
        texts = [[*each.prompt_token_ids, *each.token_ids] for each in batch]
        longest = max(map(len, texts))
        # Padding on the right is behind every token that is asked for: causal attention, no mask.
        padded = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
        hidden = self._model.base_model(input_ids=padded, use_cache=False).last_hidden_state
        wanted = [
            row[len(each.prompt_token_ids) - 1 : len(text) - 1]
            for row, each, text in zip(hidden, batch, texts, strict=True)
        ]
        logits: NDArray[np.float32] = self._model.lm_head(torch.cat(wanted)).float().numpy()
        return logits


def _batches(responses: Sequence[Response], most_tokens: int) -> Iterator[list[Response]]:
    """Responses in order, so many at once that their logits fit; at least one."""
    batch: list[Response] = []
    for response in responses:
        size = sum(len(each.token_ids) for each in batch) + len(response.token_ids)
        if batch and size > most_tokens:
            yield batch
            batch = []
        batch.append(response)
    if batch:
        yield batch
