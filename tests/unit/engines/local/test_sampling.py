"""Drawing tokens: the native sampler against the torch reference, and against the distribution."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seer.engines.local._cpu_ops import supported_isas
from seer.engines.local.kv_cache import KVCache
from seer.engines.local.model_config import ModelConfig
from seer.engines.local.native_ops import NativeOps
from seer.engines.local.sampling import SampleParams, sample_params, sample_torch
from seer.engines.serving.step_model import Draws
from seer.types import SamplingParams

CONFIG = ModelConfig(
    family="llama",
    num_layers=1,
    hidden_size=16,
    intermediate_size=16,
    num_heads=1,
    num_kv_heads=1,
    head_dim=16,
    vocab_size=700,
    max_context_tokens=64,
    rms_norm_eps=1e-5,
    tied_embeddings=True,
    eos_token_ids=(),
    fingerprint="",
)


def _native(logits: torch.Tensor, params: SampleParams, isa: str | None = None) -> Draws:
    cache = KVCache(CONFIG, 1, 32, logits.dtype, torch.device("cpu"))
    return NativeOps(CONFIG, cache, torch.zeros(64, 2, 8), isa).sample(logits, params)


sampling_params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.0, 1.7]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 1e-4]),
    top_k=st.sampled_from([0, 1, 5, 699, 5000]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)


@settings(max_examples=120, deadline=None)
@given(
    rows=st.lists(st.tuples(sampling_params, st.floats(0, 1, exclude_max=True)), min_size=1),
    spread=st.sampled_from([0.01, 1.0, 6.0]),
    raw=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_native_draws_what_torch_draws(
    rows: list[tuple[SamplingParams, float]], spread: float, *, raw: bool, seed: int
) -> None:
    """Same token and log-probability for any mix of filters, but at a CDF boundary's rounding."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(rows), 700, generator=generator) * spread
    params = sample_params([p for p, _ in rows], np.array([u for _, u in rows]), raw=raw)
    native, plain = _native(logits, params), sample_torch(logits, params)
    for i, (sampling, uniform) in enumerate(rows):
        if native.token_ids[i] == plain.token_ids[i]:
            assert native.logprobs[i] == pytest.approx(plain.logprobs[i], abs=2e-5)
        else:
            assert _is_boundary(logits[i], sampling, uniform)


def _is_boundary(logits: torch.Tensor, sampling: SamplingParams, uniform: float) -> bool:
    """Whether shifting the uniform number by 1e-5 changes the reference's token."""
    around = np.clip([uniform - 1e-5, uniform + 1e-5], 0, np.nextafter(1, 0))
    draws = sample_torch(logits.expand(2, -1), sample_params([sampling] * 2, around, raw=False))
    return draws.token_ids[0] != draws.token_ids[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("isa", supported_isas())
def test_frequencies_are_the_distribution(isa: str, dtype: torch.dtype) -> None:
    """Over evenly spaced uniform numbers each token comes as often as its probability says."""
    logits = torch.tensor([[0.0, 1.0, -2.0, 3.0, 1.5, -30.0]]).to(dtype)
    count = 20_000
    uniforms = (np.arange(count) + 0.5) / count
    params = sample_params([SamplingParams(temperature=0.7)] * count, uniforms, raw=False)
    draws = _native(logits.expand(count, -1).contiguous(), params, isa)
    expected = torch.softmax(logits[0].float() / 0.7, -1).numpy()
    seen = np.bincount(draws.token_ids, minlength=6) / count
    assert np.abs(seen - expected).max() <= 1.5 / count


def test_extreme_uniforms_draw_kept_tokens() -> None:
    """0 draws the first kept token, the largest number below 1 the last kept one."""
    logits = torch.tensor([[-5.0, 9.0, 9.1, -5.0]]).expand(2, -1).contiguous()
    params = sample_params(
        [SamplingParams(top_k=2)] * 2, np.array([0.0, np.nextafter(1, 0)]), raw=False
    )
    assert _native(logits, params).token_ids == [1, 2]
    assert sample_torch(logits, params).token_ids == [1, 2]


def test_greedy_takes_the_likeliest_and_reports_temperature_one() -> None:
    """Temperature 0: lowest id among equals, log-probability of the plain softmax."""
    logits = torch.tensor([[1.0, 4.0, 4.0, 0.0]])
    params = sample_params([SamplingParams(temperature=0, top_p=0.1)], np.array([0.9]), raw=False)
    expected = torch.log_softmax(logits, -1)[0, 1].item()
    for draws in (_native(logits, params), sample_torch(logits, params)):
        assert draws.token_ids == [1]
        assert draws.logprobs[0] == pytest.approx(expected, abs=1e-6)


def test_raw_and_processed_logprobs_differ_as_named() -> None:
    """`raw` ignores temperature and filters, `processed` includes them."""
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    sampling = [SamplingParams(temperature=0.5, top_k=2)]
    raw = _native(logits, sample_params(sampling, np.array([0.0]), raw=True))
    processed = _native(logits, sample_params(sampling, np.array([0.0]), raw=False))
    assert raw.logprobs[0] == pytest.approx(torch.log_softmax(logits, -1)[0, 0].item(), abs=1e-6)
    two = torch.log_softmax(logits[:, :2] / 0.5, -1)
    assert processed.logprobs[0] == pytest.approx(two[0, 0].item(), abs=1e-6)
