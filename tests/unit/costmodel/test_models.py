"""Shapes of known models against what their makers publish."""

import pytest

from seer.costmodel.models import find_model
from seer.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("moonlight-16b-a3b", 16.0),
        ("qwen2-vl-72b", 73.4),
        ("kimi-k2", 1040),
        ("smollm2-135m", 0.1345),
        ("qwen3-8b", 8.2),
        ("llama-3.1-8b", 8.03),
    ],
)
def test_parameters_are_the_published_totals(name: str, billions: float) -> None:
    """Within 2 %: norms and biases are not counted, totals are published rounded."""
    assert find_model(name).total_parameters / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(("name", "billions"), [("moonlight-16b-a3b", 2.24), ("kimi-k2", 32.6)])
def test_active_parameters_are_the_published_ones(name: str, billions: float) -> None:
    """Moonlight's 2.24 B leave out the embeddings, Kimi K2's 32.6 B hold both."""
    model = find_model(name)
    tables = 0 if name.startswith("moonlight") else 2
    layers = model.always_parameters + model.routed_parameters_per_token
    active = layers + tables * model.embedding_parameters
    assert active / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("moonlight-16b-a3b", 32), ("qwen2-vl-72b", 146), ("kimi-k2", 1000)]
)
def test_weights_take_what_the_paper_says(name: str, gigabytes: float) -> None:
    """Table 3 of the paper: 32 GB, 146 GB, 1 TB."""
    model = find_model(name)
    assert model.total_parameters * model.weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.03)


@pytest.mark.parametrize(
    ("name", "num_bytes"),
    [
        ("moonlight-16b-a3b", 27 * 576 * 2),
        ("qwen2-vl-72b", 80 * 2 * 8 * 128 * 2),
        ("kimi-k2", 61 * 576 * 2),
        ("smollm2-135m", 23040),
    ],
)
def test_kv_of_a_token(name: str, num_bytes: int) -> None:
    """Heads of keys and values, or the latent with its rotary part, over all layers."""
    assert find_model(name).kv_bytes_per_token == num_bytes


def test_an_unknown_model_lists_the_known_ones() -> None:
    """The message names what there is."""
    with pytest.raises(InvalidInput, match=r"model: got 'gpt-9'.*kimi-k2.*moonlight"):
        find_model("gpt-9")
