"""The instances of a training run, with the trainer's weights on them."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from seer.rollout.config import RolloutConfig
from seer.rollout.metrics import RolloutMetrics
from seer.rollout.prompts import PromptItem
from seer.rollout.results import GroupResult
from seer.rollout.rollout import OnProgress
from seer.rollout.sync import SyncRollout
from seer.trainers.policy_sync import PolicySync
from seer.trainers.trl_trainer import Trainer
from seer.trainers.weight_files import WeightFiles
from seer.types import SamplingParams


class PolicySession:
    """A rollout session that starts when it is first used.

    It ends when it is closed, or with the interpreter: a trainer that is let go of ends nothing.
    """

    def __init__(
        self,
        config: RolloutConfig,
        weights_dir: Path | None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._config = config
        self._on_progress = on_progress
        self._files = WeightFiles(weights_dir)
        self._sync = PolicySync(self._files)
        self._rollout: SyncRollout | None = None

    @property
    def weight_version(self) -> int:
        """Of the weights on the instances."""
        return self._sync.version

    def update(self, trainer: Trainer) -> float:
        """Give the instances the trainer's weights; seconds it took, 0 if they had them."""
        return self._sync.update(self._open(), trainer)

    def generate(
        self,
        prompts: Sequence[PromptItem],
        group_size: int,
        sampling: SamplingParams,
        on_group: Callable[[GroupResult], None] | None,
    ) -> list[GroupResult]:
        """Groups in the order of the prompts; `on_group` gets each when it is finished."""
        groups = []
        stream = self._open().stream(
            prompts, group_size=group_size, sampling=sampling, on_progress=self._on_progress
        )
        for group in stream:
            if on_group is not None:
                on_group(group)
            groups.append(group)
        return sorted(groups, key=lambda group: group.group_id)

    def metrics(self) -> RolloutMetrics:
        """Figures of the session so far."""
        return self._open().metrics()

    def close(self) -> None:
        """End the instances and remove the weights. Idempotent; a later use starts again."""
        rollout, self._rollout = self._rollout, None
        try:
            if rollout is not None:
                rollout.__exit__(None, None, None)
        finally:
            self._files.close()
            self._sync = PolicySync(self._files)

    def _open(self) -> SyncRollout:
        if self._rollout is None:
            self._rollout = SyncRollout(self._config).__enter__()
            # Not `atexit`: its functions run when asyncio's thread pool, which closing needs, is
            # gone.
            threading._register_atexit(self.close)  # type: ignore[attr-defined]  # noqa: SLF001
        return self._rollout
