"""The local engine on a GPU: skipped without one, so nothing here is proven until it has run."""

from pathlib import Path

import pytest
import torch

from seer.engines.local.batch import build_batch
from seer.engines.local.cuda_graphs import GraphedDecoder
from seer.engines.local.decoder import Decoder
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import read_model_config
from seer.engines.local.rotary import rope_table
from seer.engines.local.spec import LocalSpec
from seer.engines.local.torch_ops import TorchOps
from seer.engines.local.weights import load_weights
from seer.engines.serving.step_model import Rows
from support.conformance import CHECKS, Check, run_check
from support.subjects import Subject
from support.tiny_models import TINY_MODELS, VOCAB, make_tiny_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("drafting", ["off", "fixed:4", "seer"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, drafting: str, tmp_path: Path) -> None:
    """The local engine keeps the contract of engines on a GPU too."""
    make_tiny_model("llama", tmp_path)
    spec = LocalSpec(model=str(tmp_path), dtype="float32", device="cuda", kv_tokens=16 * 32)
    run_check(check, Subject(spec=spec, weights_path=str(tmp_path), drafting=drafting))


@pytest.mark.parametrize("name", TINY_MODELS)
def test_graphs_give_the_logits_of_transformers(name: str, tmp_path: Path) -> None:
    """Prefill eagerly, then decode by replayed graphs with padding rows: transformers' logits."""
    reference = make_tiny_model(name, tmp_path)
    device = torch.device("cuda")
    config = read_model_config(str(tmp_path))
    cache = KVCache(config, 12, 32, torch.float32, device)
    ops = TorchOps(config, cache, rope_table(str(tmp_path), config, device))
    weights = load_weights(str(tmp_path), config, torch.float32, device)
    forward = GraphedDecoder(Decoder(weights, ops), ops)
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, VOCAB, (90,), generator=generator).tolist() for _ in range(3)]
    tables = [[0, 5, 2], [7, 1, 9], [3, 4, 10]]

    def feed(start: int, end: int) -> torch.Tensor:
        rows = [
            Rows(token_ids=t[start:end], first_position=start, blocks=b, samples=True)
            for t, b in zip(texts, tables, strict=True)
        ]
        return forward(build_batch(rows, device)).cpu()

    with torch.inference_mode():
        got = [feed(0, 60), *(feed(i, i + 1) for i in range(60, 90))]
        for i, text in enumerate(texts):
            expected = reference(torch.tensor([text])).logits[0, 59:]
            mine = torch.stack([logits[i] for logits in got])
            assert (mine - expected).abs().max() <= 1e-4 * expected.abs().max()
