"""Times that no schedule can beat: how much room is left above a result.

- Work: all tokens have to be made, all their contexts read, and memory holds only so many tokens
  at once, which sets the fewest steps. A step's time is affine in the context it reads; over the
  number of requests its lower convex envelope is taken, as a rollout may mix batches of all sizes.
- Longest: one request's tokens come one after the other, at best alone on its instance.
With drafts each step yields at most `tokens_a_step`.
"""

import math
from dataclasses import dataclass

import msgspec

from seer.simulator.cluster import Cluster
from seer.simulator.speculation import Acceptance, Speculation
from seer.simulator.workload import Workload


class LowerBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds."""

    work_s: float
    longest_s: float

    @property
    def total_s(self) -> float:
        """The greater of the two."""
        return max(self.work_s, self.longest_s)


def lower_bounds(
    cluster: Cluster, workload: Workload, acceptance: Acceptance | None = None
) -> LowerBounds:
    """Bounds of a rollout's total time.

    Prompts are taken to cost nothing and to be shared by all siblings, and with drafts every
    request to have all its siblings finished.
    """
    groups = [(g, length) for g in workload.groups for length in g.known_lengths]
    tokens = sum(length for _, length in groups)
    read = sum(length * (g.num_prompt_tokens + length / 2) for g, length in groups)
    held = sum(length * (g.num_prompt_tokens / g.group_size + length / 2) for g, length in groups)
    siblings = max(g.group_size for g in workload.groups) - 1
    most = min(cluster.max_running, math.ceil(workload.num_requests / cluster.num_instances))
    costs = _Costs(cluster, acceptance, siblings, mean_context=read / tokens)
    longest = max(length for _, length in groups)
    return LowerBounds(
        work_s=costs.work_s(tokens, held / cluster.kv_tokens, most) / cluster.num_instances,
        longest_s=longest / costs.rate(1, longest / 2),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """A batch that may stand for part of the work."""

    tokens_a_step: float
    step_s: float


class _Costs:
    """Step times of batches of requests with the mean context."""

    def __init__(
        self,
        cluster: Cluster,
        acceptance: Acceptance | None,
        siblings: int,
        *,
        mean_context: float,
    ) -> None:
        self._step_time = cluster.step_time
        self._speculation = Speculation(acceptance, cluster.step_time) if acceptance else None
        self._siblings = siblings
        self._mean_context = mean_context

    def work_s(self, tokens: float, memory_steps: float, most: int) -> float:
        """Least seconds of one instance for all tokens, if they were all its own.

        `memory_steps` steps at least are needed, as memory holds so much at once. Steps are mixed
        from batches of any size up to `most`: the lower convex envelope of step time over tokens a
        step, at the mean number of tokens a step that the number of steps allows.
        """
        batches = [self._batch(size) for size in _sizes(most)]
        per_step = min(tokens / max(memory_steps, 1e-9), batches[-1].tokens_a_step)
        if self._speculation is not None:  # a request holds its memory for fewer steps
            per_step = min(per_step * batches[0].tokens_a_step, batches[-1].tokens_a_step)
        return tokens / per_step * _envelope(batches, per_step)

    def rate(self, size: int, context: float) -> float:
        """Tokens a second of a batch."""
        batch = self._batch(size, context)
        return batch.tokens_a_step / batch.step_s

    def _batch(self, size: int, context: float | None = None) -> _Batch:
        read = size * (self._mean_context if context is None else context)
        if self._speculation is None:
            return _Batch(tokens_a_step=size, step_s=self._step_time.step_s(size, size, read))
        plan = self._speculation.plan({self._siblings: size}, read)
        drafted = plan.draft_tokens * size
        seconds = self._step_time.step_s(size, size + drafted, read)
        seconds += self._step_time.draft_s(size, drafted)
        return _Batch(
            tokens_a_step=size * self._speculation.rate(plan, self._siblings), step_s=seconds
        )


def _sizes(most: int) -> list[int]:
    """Batch sizes from 1 to `most`, ever further apart."""
    sizes, size = [], 1
    while size < most:
        sizes.append(size)
        size += max(1, size // 16)
    return [*sizes, most]


def _envelope(batches: list[_Batch], tokens_a_step: float) -> float:
    """Least step time of a mix of two batches with that many tokens a step on average."""
    below = [b for b in batches if b.tokens_a_step <= tokens_a_step] or batches[:1]
    above = [b for b in batches if b.tokens_a_step >= tokens_a_step] or batches[-1:]
    return min(_mix(low, high, tokens_a_step) for low in below for high in above)


def _mix(low: _Batch, high: _Batch, tokens_a_step: float) -> float:
    span = high.tokens_a_step - low.tokens_a_step
    share = (tokens_a_step - low.tokens_a_step) / span if span else 0.0
    return low.step_s + min(max(share, 0.0), 1.0) * (high.step_s - low.step_s)
