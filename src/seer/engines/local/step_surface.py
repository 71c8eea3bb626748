"""A quick look at how long steps take, for budgets of drafts where no profile is given."""

import itertools

from seer.costmodel.fit import fit_surface
from seer.costmodel.points import StepPoint
from seer.costmodel.step_time import SurfaceStepTime
from seer.engines.local.step_timer import StepTimer

_WIDTHS = (1, 4, 12)
"""Tokens fed a request."""
_CONTEXTS = (32, 512)
_ROUNDS = 3
"""The first touches memory and is left out."""


def measure_surface(timer: StepTimer, max_requests: int, max_context: int) -> SurfaceStepTime:
    """The surface nearest to a few measured steps: 1 to 3 seconds on a CPU.

    Coarser than a profile (`seer profile`), but of this instance, now, beside the others.
    """
    batches = (1, 4, max(8, max_requests))
    contexts = sorted({min(context, max_context // 2) for context in _CONTEXTS})
    cases = list(itertools.product(batches, contexts, _WIDTHS))
    rounds = [[timer.step_s(*case) for case in cases] for _ in range(_ROUNDS)]
    points = [
        StepPoint(
            num_requests=batch,
            num_tokens=batch * width,
            context_tokens=batch * context,
            seconds=min(times),
        )
        for (batch, context, width), times in zip(cases, zip(*rounds[1:], strict=True), strict=True)
    ]
    return fit_surface(points, max_error=None)
