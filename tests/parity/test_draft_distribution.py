"""Sampling with drafts follows the model's distribution: a chi-square test over 10^5 texts.

Identity of tokens with and without drafts (test_losslessness) says it for the draws that happen to
come up there; this says it of the distribution itself, with guesses that are right for many texts
and wrong for others.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from seer.engines.local.model import LoadedModel
from seer.engines.local.spec import LocalSpec
from seer.engines.serving.draft import NO_DRAFT, ROOT, Draft, chain
from seer.engines.serving.step_loop import StepLoop
from seer.types import Chunk, RequestId, SamplingParams
from support.tiny_models import make_tiny_model

VOCAB = 6
LENGTH = 3
PROMPT = [2, 3, 4, 5]
NUM_TEXTS = 100_000
BATCH = 250
SAMPLING = SamplingParams(temperature=1.0, seed=5, ignore_eos=True, max_tokens=LENGTH)
LEAST_P = 1e-3
DRAFTS = {
    "chain": chain([2, 0]),
    "tree": Draft([2, 0, 0, 4, 5, 3], [ROOT, ROOT, 0, 0, 1, ROOT]),
}


class PlantedDrafter:
    """The same guesses of the first tokens for every text; none later on."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._lengths: dict[RequestId, int] = {}
        self.num_accepted = 0

    def begin(self, chunk: Chunk) -> None:
        self._lengths[chunk.request_id] = 0

    def draft(
        self, request_ids: Sequence[RequestId], max_depths: Sequence[int], context_tokens: int
    ) -> list[Draft]:
        del max_depths, context_tokens
        return [NO_DRAFT if self._lengths[name] else self._draft for name in request_ids]

    def learn(self, num_verified: Sequence[int], accepted: Sequence[Sequence[int]]) -> None:
        del num_verified
        self.num_accepted += sum(map(len, accepted))

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        self._lengths[request_id] += len(token_ids)

    def end(self, request_id: RequestId) -> None:
        del self._lengths[request_id]

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("kind", list(DRAFTS))
def test_drafts_leave_the_distribution_as_it_is(kind: str, tmp_path: Path) -> None:
    """Texts of three tokens at T = 1 fall into their 216 kinds as the model's chances say."""
    reference = make_tiny_model("llama", tmp_path, vocab_size=VOCAB)
    drafter = PlantedDrafter(DRAFTS[kind])
    counts = _counts(str(tmp_path), drafter)
    chances = _chances(reference)
    assert NUM_TEXTS / 20 < drafter.num_accepted < NUM_TEXTS * LENGTH
    observed = np.array([counts[text] for text in chances], dtype=np.float64)
    expected = NUM_TEXTS * np.array(list(chances.values()))
    is_common = expected >= 5
    observed = np.append(observed[is_common], observed[~is_common].sum())
    expected = np.append(expected[is_common], expected[~is_common].sum())
    statistic = ((observed - expected) ** 2 / expected).sum()
    halves = torch.tensor([(len(expected) - 1) / 2, statistic / 2], dtype=torch.float64)
    p_value = torch.special.gammaincc(*halves).item()  # of the chi-square distribution
    assert p_value > LEAST_P


def _counts(model: str, drafter: PlantedDrafter) -> Counter[tuple[int, ...]]:
    """How often each text came up."""
    spec = LocalSpec(
        model=model, dtype="float32", kv_tokens=32 * 2 * BATCH, max_running_requests=BATCH
    )
    loop = StepLoop(LoadedModel(spec, 1), spec.describe(), 256, None, drafter)
    counts: Counter[tuple[int, ...]] = Counter()
    for first in range(0, NUM_TEXTS, BATCH):
        for member in range(first, first + BATCH):
            loop.start(_chunk(member))
        while loop.has_work:
            counts.update(tuple(result.token_ids) for result in loop.step().results)
    loop.close()
    return counts


def _chunk(member: int) -> Chunk:
    return Chunk(
        request_id=RequestId(0, member),
        chunk_index=0,
        sampling_group=0,
        prompt_token_ids=PROMPT,
        output_token_ids=[],
        sampling=SAMPLING,
        max_tokens=LENGTH,
        keep_kv=False,
    )


@torch.inference_mode()
def _chances(reference: PreTrainedModel) -> dict[tuple[int, ...], float]:
    """The probability of every text."""
    texts = list(product(range(VOCAB), repeat=LENGTH))
    tokens = torch.tensor([[*PROMPT, *text] for text in texts])
    logprobs = torch.log_softmax(reference(tokens).logits.double(), -1)
    own = logprobs[:, len(PROMPT) - 1 : -1].gather(-1, tokens[:, len(PROMPT) :, None])
    return dict(zip(texts, own.sum((1, 2)).exp().tolist(), strict=True))
