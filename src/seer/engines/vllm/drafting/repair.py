"""Makes vLLM's rejection sampler right on CPUs, where it is not.

Without a Triton for CPUs, vLLM 0.32 runs C++ stand-ins for its kernels. The one that spreads each
request's temperature, top-k and top-p over its guesses gets a converted copy of the array that it
should fill (`vllm/utils/cpu_triton_utils.py`, `_expand_kernel_impl`), so the array stays as it was
allocated: guesses are judged, and replaced, by whatever lay in that memory. Greedy requests do not
look at it. Without drafts it is not called.

Whether a build has the defect is found out by asking, not by its version; the stand-in that puts
it right is registered as vLLM registers its own, and only in versions where it was tried.
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
    """Repair the sampler of this process if it is wrong; returns whether it was.

    Raises EngineFailure where it is wrong in a version in which the repair was not tried, or stays
    wrong.
    """
    if spreads_right():
        return False
    from vllm import __version__  # noqa: PLC0415 - only the worker has it
    from vllm.triton_utils.dispatcher import register_kernels  # noqa: PLC0415

    if __version__ not in TRIED_VERSIONS:
        raise EngineFailure(
            f"vLLM {__version__} draws wrong tokens when it verifies drafts here, and the repair "
            f"was tried in {', '.join(TRIED_VERSIONS)} only; do without drafts"
        )
    register_kernels({_KERNEL: _spread})
    if not spreads_right():
        raise EngineFailure(f"vLLM {__version__} still draws wrong tokens after its repair")
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
