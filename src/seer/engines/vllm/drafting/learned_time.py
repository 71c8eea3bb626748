"""Step times learned from the steps that run: vLLM cannot be asked to time steps of our choice.

Pure: the seconds are arguments. Until enough steps were seen a step counts as taking the same time
whatever it verifies, so that drafts are made, and with them steps of different sizes.
"""

import logging
import math
from collections import deque

from seer.costmodel.fit import fit_surface
from seer.costmodel.points import StepPoint
from seer.costmodel.step_time import StepTime, SurfaceStepTime
from seer.errors import InvalidInput

logger = logging.getLogger(__name__)

_FIRST_FIT = 32
"""Steps before the first fit; each further one comes when twice as many have been seen."""
_MOST_SHAPES = 64
"""Shapes of steps that a fit takes; the latest."""
_REPEATS = 8
"""Latest times of a shape; the least of them counts, since what disturbs a step prolongs it."""
_CONTEXT_RATIO = 1.5
"""Contexts of one shape differ by less than this factor."""


class LearnedStepTime:
    """A StepTime that follows what it is told."""

    def __init__(self) -> None:
        """Knows nothing yet."""
        self._fitted: StepTime = SurfaceStepTime(fixed_s=1.0)
        self._seen: dict[tuple[int, int, int], deque[StepPoint]] = {}
        self._num_steps = 0
        self._next_fit = _FIRST_FIT

    def add(self, num_requests: int, num_tokens: int, context_tokens: int, seconds: float) -> None:
        """A decode step, nothing else in it, took so long."""
        point = StepPoint(
            num_requests=num_requests,
            num_tokens=num_tokens,
            context_tokens=context_tokens,
            seconds=seconds,
        )
        size = round(math.log(max(1, context_tokens), _CONTEXT_RATIO))
        shape = (num_requests, num_tokens, size)
        times = self._seen.pop(shape, None) or deque(maxlen=_REPEATS)
        times.append(point)
        self._seen[shape] = times
        if len(self._seen) > _MOST_SHAPES:
            del self._seen[next(iter(self._seen))]
        self._num_steps += 1
        if self._num_steps >= self._next_fit:
            self._next_fit *= 2
            self._fit()

    def step_s(self, num_requests: float, num_tokens: float, context_tokens: float) -> float:
        """See StepTime."""
        return self._fitted.step_s(num_requests, num_tokens, context_tokens)

    def prefill_s(self, num_tokens: float, context_tokens: float) -> float:
        """See StepTime; not learned."""
        return self._fitted.prefill_s(num_tokens, context_tokens)

    def draft_s(self, num_requests: float, num_draft_tokens: float) -> float:
        """See StepTime; not learned: the drafts are there when it is asked."""
        return self._fitted.draft_s(num_requests, num_draft_tokens)

    def _fit(self) -> None:
        """Fit anew; what was known stays while the steps are too much alike."""
        points = [min(times, key=lambda point: point.seconds) for times in self._seen.values()]
        try:
            self._fitted = fit_surface(points, max_error=None)
        except InvalidInput as error:
            logger.debug("step times are not fitted yet: %s", error)
