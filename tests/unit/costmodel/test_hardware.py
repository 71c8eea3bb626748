"""Known hardware."""

import msgspec
import pytest

from seer.costmodel.hardware import find_hardware
from seer.errors import InvalidInput


def test_h800_is_an_h100_with_slower_links() -> None:
    """The export version differs in NVLink alone, as far as this model goes."""
    h100, h800 = find_hardware("h100"), find_hardware("h800")
    same = msgspec.structs.replace(
        h800, name=h100.name, source=h100.source, link_bytes_per_s=h100.link_bytes_per_s
    )
    assert same == h100
    assert h800.link_bytes_per_s < h100.link_bytes_per_s


def test_eight_bit_weights_multiply_faster() -> None:
    """Products run at the FP8 rate when a parameter takes one byte."""
    hardware = find_hardware("h800")
    assert hardware.flops(1) == pytest.approx(2 * hardware.flops(2), rel=0.01)


def test_beyond_a_node_the_network_counts() -> None:
    """A collective over more GPUs than a node has runs at the network's speed."""
    hardware = find_hardware("h800")
    assert hardware.exchange_bytes_per_s(9) < hardware.exchange_bytes_per_s(8)


def test_unknown_hardware_lists_the_known() -> None:
    """The message names what there is."""
    with pytest.raises(InvalidInput, match=r"hardware: got 'tpu'.*cpu-2core, h100, h200, h800"):
        find_hardware("tpu")


@pytest.mark.parametrize(
    ("field", "value"), [("kv_fraction", 1.2), ("bf16_flops", 0.0), ("memory_bytes", float("nan"))]
)
def test_impossible_numbers_are_refused(field: str, value: float) -> None:
    """A fraction above one, nothing, and what is no number."""
    with pytest.raises(InvalidInput, match=field):
        msgspec.structs.replace(find_hardware("h800"), **{field: value})
