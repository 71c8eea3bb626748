"""Step times from first principles."""

import msgspec
import pytest

from seer.costmodel.hardware import find_hardware
from seer.costmodel.layout import parse_layout
from seer.costmodel.models import find_model
from seer.costmodel.roofline import Overhead, RooflineStepTime, roofline
from seer.costmodel.step_time import StepTime
from seer.errors import InvalidInput

BARE = Overhead(step_s=0.0, per_request_s=0.0)
PAPER = {
    "moonlight": ("moonlight-16b-a3b", "tp1"),
    "qwen": ("qwen2-vl-72b", "tp8"),
    "kimi": ("kimi-k2", "dp32+ep32"),
}


def instance(name: str, overhead: Overhead = BARE) -> RooflineStepTime:
    """One of the paper's instances on H800 GPUs."""
    model, layout = PAPER[name]
    return roofline(find_model(model), find_hardware("h800"), parse_layout(layout), overhead)


def test_it_is_a_step_time() -> None:
    """The roofline keeps the protocol that the simulator asks."""
    step_time: StepTime = instance("qwen", Overhead(step_s=0.002, per_request_s=0.001))
    bare = instance("qwen")
    assert step_time.step_s(4, 4, 0) - bare.step_s(4, 4, 0) == pytest.approx(0.006)


def test_one_dense_request_reads_the_weights() -> None:
    """8 B parameters of two bytes at 80 % of 3.35 TB/s, by hand; the input table is not read."""
    model = find_model("llama-3.1-8b")
    step_time = roofline(model, find_hardware("h800"), parse_layout("tp1"), BARE)
    assert step_time.step_s(1, 1, 0) == pytest.approx(7.5e9 * 2 / 2.68e12, rel=0.01)


def test_many_tokens_are_bound_by_products() -> None:
    """Far beyond the ridge, twice the tokens take twice the time."""
    model = find_model("llama-3.1-8b")
    step_time = roofline(model, find_hardware("h800"), parse_layout("tp1"), BARE)
    assert step_time.step_s(4, 8000, 0) == pytest.approx(2 * step_time.step_s(4, 4000, 0))
    assert step_time.step_s(4, 4000, 0) == pytest.approx(
        2 * 7.5e9 * 4000 / (0.6 * 989e12), rel=0.01
    )


@pytest.mark.parametrize("name", PAPER)
def test_a_step_is_linear_in_context(name: str) -> None:
    """With the batch fixed, equal additions of context cost equal times."""
    step_time = instance(name)
    times = [step_time.step_s(40, 80, context) for context in (0, 1e5, 2e5)]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0])


@pytest.mark.parametrize("name", PAPER)
def test_more_work_never_takes_less(name: str) -> None:
    """Requests, tokens and context each add time or hide in a bound."""
    step_time = instance(name)
    for requests in (1, 7, 64, 500):
        base = step_time.step_s(requests, requests, requests * 1000.0)
        assert step_time.step_s(requests, requests * 4, requests * 1000.0) >= base
        assert step_time.step_s(requests, requests, requests * 2000.0) > base
        assert step_time.step_s(requests * 2, requests * 2, requests * 2000.0) > base


def test_expert_reads_grow_with_the_batch() -> None:
    """One token touches 6 of 64 experts, hundreds touch all."""
    step_time = instance("moonlight")
    always, everything = step_time.always_read_s, step_time.routed_read_s
    assert step_time.step_s(1, 1, 0) == pytest.approx(always + everything * 6 / 64)
    assert step_time.step_s(300, 300, 0) == pytest.approx(always + everything, rel=0.05)


def test_drafts_of_a_latent_model_cost_attention() -> None:
    """All heads share a latent, so a few tokens a request turn KV reads into arithmetic."""
    kimi, qwen = instance("kimi"), instance("qwen")
    assert kimi.attend_s * 4 > kimi.kv_read_s
    assert qwen.attend_s * 9 < qwen.kv_read_s


def test_a_lone_request_has_one_rank() -> None:
    """Data parallelism does not divide one request's context, but spreads 32 requests."""
    kimi = instance("kimi")
    alone = kimi.step_s(1, 1, 64000) - kimi.step_s(1, 1, 0)
    spread = kimi.step_s(32, 32, 32 * 64000) - kimi.step_s(32, 32, 0)
    assert alone == pytest.approx(spread)


def test_exchange_costs_what_its_collectives_do() -> None:
    """TP8 of 80 layers: 160 all-reduces; DP32+EP32 of 60 expert layers: 120 all-to-alls."""
    assert instance("qwen").exchange_fixed_s == pytest.approx(160 * 10e-6)
    assert instance("kimi").exchange_fixed_s == pytest.approx(120 * 30e-6)
    assert instance("moonlight").exchange_fixed_s == 0
    assert instance("moonlight").exchange_token_s == 0


def test_exchange_agrees_with_a_measured_one() -> None:
    """DeepEP's README: 155 + 273 us for a layer of 128 tokens a GPU at EP32 on H800.

    Its model has the hidden size and the active experts of Kimi K2.
    """
    kimi = instance("kimi")
    layer_s = (kimi.exchange_fixed_s + 128 * kimi.exchange_token_s) / 60
    assert layer_s == pytest.approx(428e-6, rel=0.15)


def test_slowed_scales_every_part() -> None:
    """One knob for what a roofline leaves out."""
    step_time = instance("kimi", Overhead())
    slow = step_time.slowed(2.5)
    assert slow.step_s(50, 100, 1e6) == pytest.approx(2.5 * step_time.step_s(50, 100, 1e6))
    assert slow.prefill_s(500, 10) == pytest.approx(2.5 * step_time.prefill_s(500, 10))
    with pytest.raises(InvalidInput, match="factor"):
        step_time.slowed(0.0)


def test_the_named_processor_is_slow() -> None:
    """A step of SmolLM2 on two cores is some ten milliseconds (measured: 7 to 9, docs/log.md)."""
    model, hardware = find_model("smollm2-135m"), find_hardware("cpu-2core")
    step_time = roofline(model, hardware, parse_layout("tp1"), BARE)
    assert 4e-3 < step_time.step_s(1, 1, 1024) < 14e-3


def test_better_fractions_make_shorter_steps() -> None:
    """A user replaces a fraction and nothing else."""
    hardware = find_hardware("h800")
    faster = msgspec.structs.replace(hardware, kv_fraction=0.9)
    model, layout = find_model("qwen2-vl-72b"), parse_layout("tp8")
    slow, fast = (roofline(model, each, layout, BARE) for each in (hardware, faster))
    assert fast.kv_read_s == pytest.approx(slow.kv_read_s * 8 / 9)
    assert fast.always_read_s == slow.always_read_s
