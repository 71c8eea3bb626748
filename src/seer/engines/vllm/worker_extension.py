"""Methods that vLLM's worker gets from Seer (`worker_extension_cls`), called by `collective_rpc`.

They run in vLLM's worker process. Their names begin with `seer_`, since vLLM refuses an extension
whose names it has itself.
"""

import os
import select
import signal
import threading
from collections.abc import Sequence
from typing import Any

from seer.engines.vllm.drafting.proposer import GroupDraftProposer


class SeerWorker:
    """Mixed into vLLM's worker class; never made on its own."""

    model_runner: Any
    rank: int
    parallel_config: Any

    def seer_attach(self, owner_pid: int) -> None:
        """Introduce the drafter to the model runner, and end with the process `owner_pid`."""
        drafter = getattr(self.model_runner, "drafter", None)
        if isinstance(drafter, GroupDraftProposer):
            first_of_last_stage = (
                self.parallel_config.world_size - self.parallel_config.tensor_parallel_size
            )
            drafter.attach(self.model_runner, is_output_rank=self.rank == first_of_last_stage)
        _end_with(owner_pid)

    def seer_load_weights(self, path: str) -> None:
        """Replace the weights by those of the safetensors files in the directory `path`."""
        self.model_runner.reload_weights(weights_path=path)


def _end_with(owner_pid: int) -> None:
    """End vLLM's processes when the owner has ended, however that came about.

    vLLM's engine core does not notice the end of the process that started it, when that is killed:
    core and workers would keep their memory forever.
    """
    if not hasattr(os, "pidfd_open"):
        return
    parent = os.getppid()  # the engine core, unless this is the core itself
    ours = [os.getpid()] if parent == owner_pid else [parent, os.getpid()]
    try:
        owner = os.pidfd_open(owner_pid)
    except ProcessLookupError:
        _kill(ours)
        return
    watch = threading.Thread(
        target=_wait_and_kill, args=(owner, ours), name="seer-owner-watch", daemon=True
    )
    watch.start()


def _wait_and_kill(owner: int, pids: Sequence[int]) -> None:
    select.select([owner], [], [])  # a pidfd is readable when its process has ended
    _kill(pids)


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
