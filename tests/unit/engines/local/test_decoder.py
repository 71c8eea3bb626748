"""The decoder against transformers' own forward, for each family and both sets of operations."""

from pathlib import Path

import numpy as np
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
from seer.engines.serving.draft import NO_DRAFT, ROOT, Draft, chain
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
    other = Rows(token_ids=[3, 4, 5], first_position=0, blocks=[11], samples=True)
    out = []
    for start, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True):
        rows = Rows(
            token_ids=tokens[start : start + 1],
            first_position=start,
            blocks=BLOCKS,
            samples=True,
            draft=chain(tokens[start + 1 : end]),
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


@pytest.mark.parametrize("ops_class", [NativeOps, TorchOps])
@pytest.mark.parametrize("name", TINY_MODELS)
@pytest.mark.parametrize("context", [1, 30, 63, 90])
def test_a_tree_gives_the_logits_of_each_of_its_paths(
    context: int, name: str, ops_class: type, tmp_path: Path
) -> None:
    """Every node of a draft sees the text and its ancestors, no other node of the tree."""
    reference = make_tiny_model(name, tmp_path)
    generator = torch.Generator().manual_seed(context)
    text = torch.randint(0, VOCAB, (context,), generator=generator).tolist()
    draft = _random_tree(31, generator)
    decoder = _decoder(tmp_path, ops_class)
    rows = Rows(token_ids=text, first_position=0, blocks=BLOCKS, samples=True, draft=draft)
    other = Rows(token_ids=[3, 4, 5], first_position=0, blocks=[11], samples=True)
    got = decoder(build_batch([other, rows], CPU))[1:]
    with torch.inference_mode():
        for node, path in enumerate(_paths(draft)):
            expected = reference(torch.tensor([text + path])).logits[0, -1]
            error = (got[1 + node] - expected).abs().max()
            assert error <= 2e-5 * expected.abs().max()


@pytest.mark.parametrize("ops_class", [NativeOps, TorchOps])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_path_moved_to_the_front_goes_on_as_if_fed_alone(
    dtype: torch.dtype, ops_class: type, tmp_path: Path
) -> None:
    """After the KV of a tree's path has been moved, the next token sees a plain text."""
    make_tiny_model("llama", tmp_path)
    generator = torch.Generator().manual_seed(3)
    text = torch.randint(0, VOCAB, (60,), generator=generator).tolist()
    draft = _random_tree(20, generator)
    deepest = max(range(len(draft)), key=lambda node: draft.depths[node])
    nodes, path = _ancestors(draft, deepest), _paths(draft)[deepest]
    decoder = _decoder(tmp_path, ops_class, dtype)
    decoder(build_batch([_rows(text, 0, draft)], CPU))
    places = [(BLOCKS[slot // 32], slot % 32) for slot in range(60, 60 + 20)]
    moves = [(*places[node], *places[i]) for i, node in enumerate(nodes)]
    decoder._ops.move_tokens(np.array(moves, dtype=np.int32))
    got = decoder(build_batch([_rows([7], 60 + len(path))], CPU))
    alone = _decoder(tmp_path, ops_class, dtype)
    expected = alone(build_batch([_rows([*text, *path, 7], 0)], CPU))[-1:]
    assert (got - expected).abs().max() <= (0.05 if dtype == torch.bfloat16 else 2e-5) * (
        expected.abs().max()
    )


def _rows(tokens: list[int], first: int, draft: Draft = NO_DRAFT) -> Rows:
    return Rows(token_ids=tokens, first_position=first, blocks=BLOCKS, samples=True, draft=draft)


def _random_tree(size: int, generator: torch.Generator) -> Draft:
    tokens = torch.randint(0, VOCAB, (size,), generator=generator).tolist()
    draws = torch.rand(size, generator=generator).tolist()
    return Draft(tokens, [int(draw * (i + 1)) - 1 for i, draw in enumerate(draws)])


def _ancestors(draft: Draft, node: int) -> list[int]:
    """The nodes from the text to `node`, itself included."""
    parent = draft.parents[node]
    return [*([] if parent == ROOT else _ancestors(draft, parent)), node]


def _paths(draft: Draft) -> list[list[int]]:
    """Tokens from the text to each node."""
    return [[draft.token_ids[i] for i in _ancestors(draft, node)] for node in range(len(draft))]


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
    mine = Rows(token_ids=[1] * 4, first_position=0, blocks=[2], samples=False)
    theirs = Rows(token_ids=[1] * 5, first_position=0, blocks=[4], samples=False)
    alone.begin(build_batch([mine], CPU))
    among.begin(build_batch([theirs, mine], CPU))
    first = alone.attend(0, weights, qkv[5:].contiguous())
    second = among.attend(0, weights, qkv)
    assert torch.equal(first, second[5:])
