"""The seed of each rollout of a training run, so that a resumed run draws the same tokens."""

from hashlib import blake2b
from typing import Any


class DrawSeeds:
    """Derives seeds from what a resumed run knows again: the run's seed, the step, and the mode.

    Within a step, calls of one mode are counted: an evaluation has a call for each of its batches,
    and a step may take several generation batches. Checkpoints lie between steps, where the count
    starts anew.
    """

    def __init__(self) -> None:
        self._state: Any = None
        self._step: int | None = None
        self._num_calls: dict[bool, int] = {}

    def next(self, seed: int, state: Any, *, is_training: bool) -> int:
        """The seed of the next call, in [0, 2^63).

        `state` is the TrainerState: each run of a trainer has one of its own, so a run that begins
        or resumes in the same process counts anew too.
        """
        if state is not self._state or state.global_step != self._step:
            self._state, self._step = state, state.global_step
            self._num_calls = {True: 0, False: 0}
        call = self._num_calls[is_training]
        self._num_calls[is_training] += 1
        mode = "train" if is_training else "eval"
        name = f"{seed}:{mode}:{self._step}:{call}".encode()
        return int.from_bytes(blake2b(name, digest_size=8).digest()) >> 1
