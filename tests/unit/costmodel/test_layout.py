"""How instances divide models over GPUs."""

import pytest

from seer.costmodel.hardware import find_hardware
from seer.costmodel.layout import Layout, kv_capacity_tokens, parse_layout, shard
from seer.costmodel.models import find_model
from seer.errors import InvalidInput

H800 = find_hardware("h800")


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("tp8", Layout(kind="tensor", num_gpus=8)),
        ("TP1", Layout(kind="tensor", num_gpus=1)),
        ("dp32+ep32", Layout(kind="data_expert", num_gpus=32)),
        ("dp4ep4", Layout(kind="data_expert", num_gpus=4)),
    ],
)
def test_layouts_are_read(text: str, layout: Layout) -> None:
    """Both forms, in any case, with or without the plus."""
    assert parse_layout(text) == layout


@pytest.mark.parametrize("text", ["", "tp", "tp0", "pp4", "dp32", "dp32+ep8", "tp8x"])
def test_other_forms_are_refused(text: str) -> None:
    """The message says which forms there are."""
    with pytest.raises(InvalidInput, match="tpN"):
        parse_layout(text)


def test_tensor_parallelism_divides_weights_and_heads() -> None:
    """Eight parts of weights and, with eight key-value heads, of the cache."""
    model = find_model("qwen2-vl-72b")
    one, eight = shard(model, parse_layout("tp1")), shard(model, parse_layout("tp8"))
    assert eight.weight_bytes == pytest.approx(one.weight_bytes / 8)
    assert eight.kv_bytes_per_token == one.kv_bytes_per_token / 8


def test_a_head_is_not_divided() -> None:
    """Beyond one key-value head a GPU the cache is copied."""
    model = find_model("qwen2-vl-72b")
    eight, sixteen = shard(model, parse_layout("tp8")), shard(model, parse_layout("tp16"))
    assert sixteen.kv_bytes_per_token == eight.kv_bytes_per_token


def test_a_latent_cache_is_copied_to_every_gpu() -> None:
    """Tensor parallelism does not divide what all heads share."""
    model = find_model("moonlight-16b-a3b")
    assert shard(model, parse_layout("tp4")).kv_bytes_per_token == model.kv_bytes_per_token


def test_expert_parallelism_divides_experts_only() -> None:
    """Attention and shared experts are on every GPU."""
    model = find_model("kimi-k2")
    one, many = shard(model, parse_layout("tp1")), shard(model, parse_layout("dp32+ep32"))
    assert many.routed_bytes == pytest.approx(one.routed_bytes / 32)
    assert many.always_bytes == one.always_bytes


@pytest.mark.parametrize(
    ("model", "layout", "millions"),
    [
        ("moonlight-16b-a3b", "tp1", (72 - 32) / 31.1e-3),
        ("qwen2-vl-72b", "tp8", (72 - 18.3) * 8 / 327.7e-3),
    ],
)
def test_kv_that_fits(model: str, layout: str, millions: float) -> None:
    """Nine tenths of 80 GB less the weights, in thousands of tokens, by hand."""
    tokens = kv_capacity_tokens(find_model(model), H800, parse_layout(layout))
    assert tokens / 1e3 == pytest.approx(millions, rel=0.02)


def test_each_rank_has_its_own_kv() -> None:
    """DP32+EP32 of Kimi K2: some 43 GB of weights a GPU leave room for 32 caches."""
    model, layout = find_model("kimi-k2"), parse_layout("dp32+ep32")
    assert 40e9 < shard(model, layout).weight_bytes < 46e9
    assert 11e6 < kv_capacity_tokens(model, H800, layout) < 15e6


def test_weights_that_do_not_fit_are_refused() -> None:
    """The message says how much is missing."""
    with pytest.raises(InvalidInput, match="147 GB of weights on each exceed 72 GB"):
        kv_capacity_tokens(find_model("qwen2-vl-72b"), H800, parse_layout("tp1"))


@pytest.mark.parametrize(
    ("model", "layout", "why"),
    [
        ("qwen2-vl-72b", "tp7", "64 heads"),
        ("qwen2-vl-72b", "dp8+ep8", "has no experts"),
        ("moonlight-16b-a3b", "dp3+ep3", "64 experts"),
    ],
)
def test_layouts_that_cannot_cut_a_model(model: str, layout: str, why: str) -> None:
    """Heads and experts are whole."""
    with pytest.raises(InvalidInput, match=why):
        shard(find_model(model), parse_layout(layout))
