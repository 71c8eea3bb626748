"""Where an instance's time goes: steps, and drafting among them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StepClock:
    """Seconds since they were last asked for."""

    def __init__(self) -> None:
        self._step_s = 0.0
        self._draft_s = 0.0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Count what happens inside as part of a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._step_s += time.perf_counter() - start

    @contextmanager
    def drafting(self) -> Iterator[None]:
        """Count what happens inside, which is within a step, as drafting too."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._draft_s += time.perf_counter() - start

    def take(self) -> tuple[float, float]:
        """Seconds of steps and of drafting since the last call; whole steps only."""
        taken = self._step_s, self._draft_s
        self._step_s = self._draft_s = 0.0
        return taken
