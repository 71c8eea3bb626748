"""`seer` that kills itself: `python killed_train.py PHASE STEP [arguments of seer ...]`.

PHASE is one of PHASES; the process gets SIGKILL in that phase of optimiser step STEP (from 1). It
patches what it must in its own process alone, so everything else is the command itself.
"""

import io
import os
import signal
import sys
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from seer.cli.main import main
from seer.rollout.token_store import TokenStore
from seer.trainers.training.hooks import StepHooks

CHUNKS_BEFORE = 5
"""Chunks of the step's rollout that have ended when it is killed; many are left."""


class Now:
    """The step in progress."""

    step = 0
    chunks = 0


def in_rollout(step: int) -> None:
    """When some chunks of the step have ended, and others run."""
    end = TokenStore.end

    def counted(store: TokenStore, result: Any) -> bool:
        ended = end(store, result)
        Now.chunks += 1
        if Now.step == step and Now.chunks == CHUNKS_BEFORE:
            die()
        return ended

    TokenStore.end = counted  # type: ignore[assignment,method-assign]


def in_training(step: int) -> None:
    """Between the backward pass and the optimiser's step."""

    def before_step(*_: object) -> None:
        if Now.step == step:
            die()

    register_optimizer_step_pre_hook(before_step)


def in_checkpoint(step: int) -> None:
    """With half of the optimiser's state in its file."""
    save = torch.save

    def half_saved(value: object, path: Any, *args: Any, **kwargs: Any) -> None:
        if Now.step != step or not str(path).endswith("optimizer.pt"):
            save(value, path, *args, **kwargs)
            return
        whole = io.BytesIO()
        save(value, whole, *args, **kwargs)
        with open(path, "wb") as file:  # noqa: PTH123 - as torch does it
            file.write(whole.getvalue()[: whole.tell() // 2])
            file.flush()
            os.fsync(file.fileno())
        die()

    torch.save = half_saved  # type: ignore[assignment]


def before_marker(step: int) -> None:
    """With every file of the checkpoint written, but not the one that makes it count."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        is_marker = event == "os.rename" and str(arguments[1]).endswith("seer_complete.json")
        if is_marker and Now.step == step:
            die()

    sys.addaudithook(watch)


def in_reward(step: int) -> None:
    """Nothing here: the reward function of the test kills its parent."""
    del step


PHASES = {
    "rollout": in_rollout,
    "reward": in_reward,
    "training": in_training,
    "checkpoint": in_checkpoint,
    "marker": before_marker,
}


def die() -> None:
    """As from outside: nothing is closed, flushed or caught."""
    os.kill(os.getpid(), signal.SIGKILL)


def follow_steps() -> None:
    """Keep `Now` up to date."""
    rollout = StepHooks.rollout

    def noted(hooks: StepHooks, to: Any, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        Now.step, Now.chunks = trainer.state.global_step + 1, 0
        return rollout(hooks, to, prompts, trainer)

    StepHooks.rollout = noted  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    phase, step = sys.argv[1], int(sys.argv[2])
    sys.argv[1:3] = []
    follow_steps()
    PHASES[phase](step)
    main()
