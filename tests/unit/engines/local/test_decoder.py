"""The decoder against transformers' own forward, for each family and both sets of operations."""

from pathlib import Path

import pytest
import torch

from seer.engines.local.batch import build_batch
from seer.engines.local.decoder import Decoder
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import read_model_config
from seer.engines.local.native_ops import NativeOps
from seer.engines.local.rotary import rope_table
from seer.engines.local.torch_ops import TorchOps
from seer.engines.local.weights import load_weights
from seer.engines.serving.step_model import Rows
from support.tiny_models import TINY_MODELS, VOCAB, make_tiny_model

CPU = torch.device("cpu")
BLOCKS = [5, 2, 9, 0, 7, 3]


def _decoder(path: Path, ops_class: type, dtype: torch.dtype = torch.float32) -> Decoder:
    config = read_model_config(str(path))
    cache = KVCache(config, 12, 32, dtype, CPU)
    rope = rope_table(str(path), config, CPU)
    return Decoder(load_weights(str(path), config, dtype, CPU), ops_class(config, cache, rope))


def _feed(decoder: Decoder, tokens: list[int], cuts: list[int]) -> torch.Tensor:
    """Logits of all tokens, fed in pieces beside another sequence of its own blocks."""
    other = Rows(token_ids=[3, 4, 5], first_position=0, blocks=[11], num_logits=1)
    out = []
    for start, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True):
        rows = Rows(
            token_ids=tokens[start:end],
            first_position=start,
            blocks=BLOCKS,
            num_logits=end - start,
        )
        out.append(decoder(build_batch([other, rows], CPU))[1:])
    return torch.cat(out)


@pytest.mark.parametrize("ops_class", [NativeOps, TorchOps])
@pytest.mark.parametrize("name", TINY_MODELS)
def test_logits_equal_transformers_whatever_the_pieces(
    name: str, ops_class: type, tmp_path: Path
) -> None:
    """Prefill in pieces, decode and verification of several tokens give transformers' logits."""
    reference = make_tiny_model(name, tmp_path)
    tokens = torch.randint(0, VOCAB, (150,), generator=torch.Generator().manual_seed(1)).tolist()
    with torch.inference_mode():
        expected = reference(torch.tensor([tokens])).logits[0]
    got = _feed(_decoder(tmp_path, ops_class), tokens, [70, 71, 72, 80, 96, 97, 128, 129])
    scale = expected.abs().max()
    assert (got - expected).abs().max() <= 2e-5 * scale


@pytest.mark.parametrize("name", TINY_MODELS)
def test_bfloat16_stays_near_float32(name: str, tmp_path: Path) -> None:
    """In bfloat16 both sets of operations stay within bfloat16's rounding of the reference."""
    reference = make_tiny_model(name, tmp_path)
    tokens = list(range(2, 80))
    with torch.inference_mode():
        expected = torch.log_softmax(reference(torch.tensor([tokens])).logits[0], -1)
    for ops_class in (NativeOps, TorchOps):
        logits = _feed(_decoder(tmp_path, ops_class, torch.bfloat16), tokens, [40, 41])
        got = torch.log_softmax(logits.float(), -1)
        error = (got - expected).abs().mean() / expected.std()
        assert error < 0.05


def test_a_row_does_not_depend_on_the_batch(tmp_path: Path) -> None:
    """The native attention of a sequence is bit for bit the same alone and among others."""
    make_tiny_model("llama", tmp_path)
    config = read_model_config(str(tmp_path))
    rope = rope_table(str(tmp_path), config, CPU)
    qkv = torch.randn(9, 128)
    alone = NativeOps(config, KVCache(config, 12, 32, torch.float32, CPU), rope)
    among = NativeOps(config, KVCache(config, 12, 32, torch.float32, CPU), rope)
    weights = load_weights(str(tmp_path), config, torch.float32, CPU).layers[0]
    mine = Rows(token_ids=[1] * 4, first_position=0, blocks=[2], num_logits=0)
    theirs = Rows(token_ids=[1] * 5, first_position=0, blocks=[4], num_logits=0)
    alone.begin(build_batch([mine], CPU))
    among.begin(build_batch([theirs, mine], CPU))
    first = alone.attend(0, weights, qkv[5:].contiguous())
    second = among.attend(0, weights, qkv)
    assert torch.equal(first, second[5:])
