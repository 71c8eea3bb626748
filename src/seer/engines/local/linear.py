"""Matrix products with weights laid out once for the processor.

On a CPU oneDNN can reorder a weight into the layout its kernels want; done once, the products of a
small model's decode step take 0.3 to 0.7 of the time of plain `linear` (docs/log.md). torch exposes
this under private names, so all of it falls back to `linear` when they are missing or refuse.
"""

import torch
from torch import Tensor

_PACKED_FOR_ROWS = 32
"""Row count the packed layout is chosen for. Layouts for other counts are within noise of it."""


class Linear:
    """y = x W^T + b for a fixed W [out, in]."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.out_features = weight.shape[0]
        self._bias = bias
        self._weight: Tensor | None = weight
        self._packed = _pack(weight, bias)
        if self._packed is not None:
            self._weight = None

    def __call__(self, x: Tensor) -> Tensor:
        """Product for x [rows, in]."""
        if self._packed is not None:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001
                x, self._packed, self._bias, "none", [], ""
            )
            return y
        assert self._weight is not None  # noqa: S101 - one of the two is always set
        return torch.nn.functional.linear(x, self._weight, self._bias)


def _pack(weight: Tensor, bias: Tensor | None) -> Tensor | None:
    """The reordered weight, or None where this torch or this device has no such path."""
    if weight.device.type != "cpu":
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(  # noqa: SLF001
            weight, _PACKED_FOR_ROWS
        )
        probe = torch.zeros(1, weight.shape[1], dtype=weight.dtype)
        torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001
            probe, packed, bias, "none", [], ""
        )
    except (AttributeError, RuntimeError):
        return None
    return packed
