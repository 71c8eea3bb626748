"""A quick look at how long steps take, for budgets of drafts where no profile is given."""

import itertools

from seer.costmodel.fit import fit_surface
from seer.costmodel.measuring import fastest, step_points
from seer.costmodel.step_time import SurfaceStepTime
from seer.engines.local.step_timer import StepTimer

_WIDTHS = (1, 4, 12)
"""Tokens fed a request."""
_CONTEXTS = (32, 512)
_REPEATS = 2


def measure_surface(timer: StepTimer, max_requests: int, max_context: int) -> SurfaceStepTime:
    """The surface nearest to a few measured steps: 1 to 3 seconds on a CPU.

    Coarser than a profile (`seer profile`), but of this instance, now, beside the others.
    """
    batches = (1, 4, max(8, max_requests))
    contexts = sorted({min(context, max_context // 2) for context in _CONTEXTS})
    cases = list(itertools.product(batches, contexts, _WIDTHS))
    points = step_points(cases, fastest(cases, timer.step_s, _REPEATS))
    return fit_surface(points, max_error=None)
