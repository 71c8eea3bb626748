"""The C++ operations of every instruction set here against plain torch."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
import torch

from seer.engines.local._cpu_ops import supported_isas
from seer.engines.local.batch import StepBatch, build_batch
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.linear import Linear
from seer.engines.local.model_config import ModelConfig
from seer.engines.local.native_ops import NativeOps
from seer.engines.local.torch_ops import TorchOps
from seer.engines.local.weights import LayerWeights
from seer.engines.serving.draft import Draft
from seer.engines.serving.step_model import Rows

CPU = torch.device("cpu")
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Shape:
    """Heads of one case."""

    heads: int
    kv_heads: int
    dim: int


SHAPES = [Shape(9, 3, 64), Shape(4, 4, 16), Shape(14, 2, 128), Shape(16, 1, 80), Shape(2, 2, 96)]
LONG_SHAPES = [
    Shape(9, 3, 64),
    Shape(3, 3, 32),
    Shape(20, 1, 128),
    Shape(4, 2, 256),
    Shape(2, 1, 288),
]
POSITIONS = 512


def _config(shape: Shape) -> ModelConfig:
    return ModelConfig(
        family="qwen3",
        num_layers=2,
        hidden_size=64,
        intermediate_size=96,
        num_heads=shape.heads,
        num_kv_heads=shape.kv_heads,
        head_dim=shape.dim,
        vocab_size=100,
        max_context_tokens=POSITIONS,
        rms_norm_eps=1e-5,
        tied_embeddings=True,
        eos_token_ids=(),
        fingerprint="",
    )


def _layer(shape: Shape, dtype: torch.dtype, *, with_norms: bool) -> LayerWeights:
    norm = torch.rand(shape.dim).to(dtype) + 0.5 if with_norms else None
    unused = Linear(torch.zeros(16, 16, dtype=dtype))
    empty = torch.zeros(0)
    return LayerWeights(
        input_norm=empty,
        qkv=unused,
        q_norm=norm,
        k_norm=norm,
        output=unused,
        post_norm=empty,
        gate_up=unused,
        down=unused,
    )


def _rope(dim: int) -> torch.Tensor:
    angles = torch.arange(POSITIONS)[:, None] * 10000.0 ** (-torch.arange(dim // 2) / (dim // 2))
    return torch.stack([angles.cos(), angles.sin()], dim=1).contiguous()


def _batch(step: list[tuple[int, int]], tables: list[list[int]]) -> StepBatch:
    """A step of (first position, rows) a sequence."""
    sequences = [
        Rows(token_ids=[0] * n, first_position=first, blocks=tables[i], samples=False)
        for i, (first, n) in enumerate(step)
    ]
    return build_batch(sequences, CPU)


def _tree_batch(size: int, contexts: list[int], tables: list[list[int]]) -> StepBatch:
    """A step of one token and a random tree of `size` nodes after each context."""
    generator = torch.Generator().manual_seed(size)
    sequences = []
    for context, table in zip(contexts, tables, strict=True):
        draws = torch.rand(size, generator=generator).tolist()
        tree = Draft([0] * size, [int(draw * (i + 1)) - 1 for i, draw in enumerate(draws)])
        rows = Rows(token_ids=[0], first_position=context, blocks=table, samples=True, draft=tree)
        sequences.append(rows)
    return build_batch(sequences, CPU)


def _qkv(batch: StepBatch, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(batch.num_rows, (shape.heads + 2 * shape.kv_heads) * shape.dim).to(dtype)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The native operations and torch's over caches of their own."""

    isa: str
    shape: Shape
    dtype: torch.dtype
    num_blocks: int
    with_norms: bool = False
    query_scale: float = 1.0
    """Wide scores move the softmax's maximum along the context."""

    def check_attention(self, batches: Iterable[StepBatch]) -> None:
        """Both attend alike, step after step over the KV of the steps before."""
        config, rope = _config(self.shape), _rope(self.shape.dim)
        native = NativeOps(config, self._cache(config), rope, self.isa)
        plain = TorchOps(config, self._cache(config), rope)
        weights = _layer(self.shape, self.dtype, with_norms=self.with_norms)
        for batch in batches:
            qkv = _qkv(batch, self.shape, self.dtype)
            qkv[:, : self.shape.heads * self.shape.dim] *= self.query_scale
            native.begin(batch)
            plain.begin(batch)
            got = native.attend(1, weights, qkv).float()
            expected = plain.attend(1, weights, qkv.clone()).float()
            assert (got - expected).abs().max() <= TOLERANCE[self.dtype] * expected.abs().max()

    def _cache(self, config: ModelConfig) -> KVCache:
        return KVCache(config, self.num_blocks, 32, self.dtype, CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("isa", supported_isas())
def test_attention_equals_torch(isa: str, shape: Shape, dtype: torch.dtype) -> None:
    """Ragged paged attention with rotary (and head norms) equals torch's over three steps."""
    torch.manual_seed(3)
    steps = [[(0, 67), (0, 1), (0, 40)], [(67, 1), (1, 1), (40, 1)], [(68, 9), (2, 70)]]
    tables = [[1, 6, 3, 9], [4, 2, 12], [0, 8]]
    pair = Pair(isa=isa, shape=shape, dtype=dtype, num_blocks=16, with_norms=shape.kv_heads == 2)
    pair.check_attention(_batch(step, tables) for step in steps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("shape", LONG_SHAPES, ids=str)
@pytest.mark.parametrize("isa", supported_isas())
def test_attention_within_trees_equals_torch(isa: str, shape: Shape, dtype: torch.dtype) -> None:
    """Nodes see the context and their ancestors, wherever a tree lies in blocks and chunks."""
    torch.manual_seed(11)
    tables = [list(range(39, 27, -1)), list(range(1, 20, 2)), list(range(0, 20, 2))]
    contexts = [[126, 127, 31], [128, 112, 15], [0, 255, 96]]
    steps = [_batch([(0, 300), (0, 260), (0, 100)], tables)]
    for size, at in zip((5, 32, 17), contexts, strict=True):
        steps.append(_tree_batch(size, at, tables))
    pair = Pair(isa=isa, shape=shape, dtype=dtype, num_blocks=40, query_scale=4)
    pair.check_attention(steps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("shape", LONG_SHAPES, ids=str)
@pytest.mark.parametrize("isa", supported_isas())
def test_verifying_over_long_contexts_equals_torch(
    isa: str, shape: Shape, dtype: torch.dtype
) -> None:
    """Attention of 1 to 17 tokens a request over ragged contexts of many blocks equals torch's.

    The scores are wide (queries times 8), so that the softmax's maximum moves along the context.
    """
    torch.manual_seed(5)
    tables = [list(range(39, 27, -1)), list(range(1, 20, 2)), list(range(0, 20, 2))]
    steps = [
        [(0, 300), (0, 127), (0, 33)],
        [(300, 8), (127, 2), (33, 4)],
        [(308, 1), (129, 8), (37, 5)],
        [(309, 11), (137, 1), (42, 17)],
    ]
    pair = Pair(isa=isa, shape=shape, dtype=dtype, num_blocks=40, query_scale=8)
    pair.check_attention(_batch(step, tables) for step in steps)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("isa", supported_isas())
def test_a_row_does_not_depend_on_the_rows_beside_it(isa: str, dtype: torch.dtype) -> None:
    """Tokens attended to together and one by one, alone and in a batch, give the same bits."""
    torch.manual_seed(6)
    shape = Shape(9, 3, 64)
    config = _config(shape)
    weights = _layer(shape, dtype, with_norms=False)
    ops = NativeOps(config, KVCache(config, 16, 32, dtype, CPU), _rope(shape.dim), isa)
    tables = [[3, 1, 4, 15, 9, 2], [6, 5]]
    together = _batch([(0, 150), (0, 20)], tables)
    qkv = _qkv(together, shape, dtype)
    ops.begin(together)
    expected = ops.attend(0, weights, qkv)
    for first, rows in ((149, 1), (140, 8), (126, 4), (130, 20)):
        ops.begin(_batch([(first, rows)], tables))
        got = ops.attend(0, weights, qkv[first : first + rows].clone())
        assert torch.equal(got, expected[first : first + rows])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("isa", supported_isas())
def test_norms_and_activation_equal_torch(isa: str, dtype: torch.dtype) -> None:
    """RMS norm with and without residual, and the gated activation, equal torch's."""
    torch.manual_seed(4)
    config = _config(Shape(2, 2, 16))
    cache = KVCache(config, 1, 32, dtype, CPU)
    native, plain = NativeOps(config, cache, _rope(16), isa), TorchOps(config, cache, _rope(16))
    for rows in (1, 300):  # one thread, several threads
        x = (torch.randn(rows, 64) * 3).to(dtype)
        weight = torch.rand(64).to(dtype)
        residual, other = torch.randn(rows, 64).to(dtype), torch.randn(rows, 192).to(dtype) * 8
        mine, theirs = residual.clone(), residual.clone()
        pairs = [
            (native.norm(x, weight), plain.norm(x, weight)),
            (native.add_norm(x, mine, weight), plain.add_norm(x, theirs, weight)),
            (mine, theirs),
            (native.silu_mul(other), plain.silu_mul(other)),
        ]
        for got, expected in pairs:
            error = (got.float() - expected.float()).abs().max()
            assert error <= TOLERANCE[dtype] * expected.float().abs().max()


def test_an_unknown_instruction_set_is_refused() -> None:
    """Naming a table that this processor cannot run raises ValueError."""
    config = _config(Shape(2, 2, 16))
    cache = KVCache(config, 1, 32, torch.float32, CPU)
    with pytest.raises(ValueError, match="cannot run"):
        NativeOps(config, cache, _rope(16), "ops_of_tomorrow")
