"""Makes vLLM's rejection sampler right on CPUs, where it is not.

Without a Triton for CPUs, vLLM 0.32 runs C++ stand-ins for its kernels. The one that spreads each
request's temperature, top-k and top-p over its guesses gets a converted copy of the array that it
should fill (`vllm/utils/cpu_triton_utils.py`, `_expand_kernel_impl`), so the array stays as it was
allocated: guesses are judged, and replaced, by whatever lay in that memory. Greedy requests do not
look at it. Without drafts it is not called.

A second one ends the engine: a step in which nobody has a guess passes the filters an array without
rows, of which top-k alone (without top-p) asks for the maximum.

Whether a build has a defect is found out by asking, not by its version. The stand-in for the kernel
is registered as vLLM registers its own. Repairs are made only in versions where they were tried.
"""

import logging
import random
from typing import TYPE_CHECKING

from seer.errors import EngineFailure

if TYPE_CHECKING:
    from torch import Tensor

TRIED_VERSIONS = ("0.32.0",)
"""Versions of vLLM in which the repair was tried, and passed `seer check`."""
_KERNEL = "vllm.v1.sample.rejection_sampler.expand_kernel"

logger = logging.getLogger(__name__)


def repair_rejection_sampler() -> bool:
    """Repair what is wrong with the sampler of this process; returns whether anything was.

    Raises EngineFailure where something is wrong in a version in which the repair was not tried, or
    stays wrong.
    """
    if spreads_right() and filters_no_rows():
        return False
    from vllm import __version__  # noqa: PLC0415 - only the worker has it

    if __version__ not in TRIED_VERSIONS:
        raise EngineFailure(
            f"vLLM {__version__} draws wrong tokens when it verifies drafts here, and the repair "
            f"was tried in {', '.join(TRIED_VERSIONS)} only; do without drafts"
        )
    _repair()
    if not (spreads_right() and filters_no_rows()):
        raise EngineFailure(f"vLLM {__version__} still verifies drafts wrongly after its repair")
    logger.info("repaired the rejection sampler of vLLM %s", __version__)
    return True


def spreads_right() -> bool:
    """Whether a request's value reaches each of its guesses."""
    import torch  # noqa: PLC0415 - only the worker has it
    from vllm.v1.sample.rejection_sampler import expand_batch_to_tokens  # noqa: PLC0415

    counts = [3, 0, 1, 4]
    for dtype in (torch.float32, torch.int32):
        # Other values each time: memory that was not written may hold those of the last time.
        values = [random.randrange(2, 1 << 20) for _ in counts]  # noqa: S311
        given = torch.tensor(values, dtype=dtype)
        ends = torch.tensor(counts, dtype=torch.int32).cumsum(0, dtype=torch.int32)
        spread = expand_batch_to_tokens(given, ends, sum(counts), values[2], 1)
        wanted = [value for value, count in zip(values, counts, strict=True) for _ in range(count)]
        wanted = [1 if value == values[2] else value for value in wanted]
        if spread.tolist() != wanted:
            return False
    return True


def filters_no_rows() -> bool:
    """Whether top-k alone can be asked of a step without guesses."""
    import torch  # noqa: PLC0415 - only the worker has it
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p  # noqa: PLC0415

    try:
        apply_top_k_top_p(torch.empty((0, 2)), torch.empty(0, dtype=torch.int32), None)
    except RuntimeError:
        return False
    return True


def _repair() -> None:
    from vllm.triton_utils.dispatcher import register_kernels  # noqa: PLC0415 - only the worker
    from vllm.v1.sample.ops import topk_topp_sampler  # noqa: PLC0415 - only the worker has it

    if not spreads_right():
        register_kernels({_KERNEL: _spread})
    if not filters_no_rows():
        theirs = topk_topp_sampler.apply_top_k_only

        def apply_top_k_only(logits: "Tensor", k: "Tensor") -> "Tensor":
            filtered: Tensor = theirs(logits, k) if len(logits) else logits
            return filtered

        topk_topp_sampler.apply_top_k_only = apply_top_k_only


def _spread(
    output: "Tensor", input_val: "Tensor", cu_num_tokens: "Tensor", *replacing: float
) -> None:
    """Fill `output` [tokens] with each request's value, once a token of it.

    `replacing` is the value that is replaced, what replaces it, and what the kernel alone needs.
    """
    replaced, replacement, *_ = replacing
    values = input_val.masked_fill(input_val == replaced, replacement)
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    output.copy_(values.repeat_interleave(counts, output_size=len(output)))
