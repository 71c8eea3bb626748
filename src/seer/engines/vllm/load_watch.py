"""What vLLM's scheduler says of its load, kept for the next chunk result."""

from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from seer.types import EngineInfo, InstanceLoad


class LoadWatch(StatLoggerBase):  # type: ignore[misc]
    """A listener to vLLM's statistics: it keeps the last ones.

    vLLM hands them out with the outputs of each step, before the requests' own coroutines go on; so
    a chunk that has ended reports the load after its end. KV that only the prefix cache holds
    counts as free.
    """

    def __init__(self, info: EngineInfo, num_blocks: int) -> None:
        """`num_blocks` is what vLLM has, its null block left out."""
        self._info = info
        self._num_blocks = num_blocks
        self._usage = 0.0
        self._num_running = 0
        self._num_waiting = 0

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        """Take the statistics of one step; None: the step has none."""
        del iteration_stats, mm_cache_stats, engine_idx
        if scheduler_stats is None:
            return
        self._usage = scheduler_stats.kv_cache_usage
        self._num_running = scheduler_stats.num_running_reqs
        self._num_waiting = (
            scheduler_stats.num_waiting_reqs + scheduler_stats.num_skipped_waiting_reqs
        )

    def log_engine_initialized(self) -> None:
        """Nothing to tell anybody."""

    def load(self) -> InstanceLoad:
        """The load after the last step."""
        used = round(self._usage * self._num_blocks)
        free = max(0, self._info.num_blocks - used)
        return InstanceLoad(
            free_kv_tokens=free * self._info.block_size,
            num_running=self._num_running,
            num_waiting=self._num_waiting,
        )
