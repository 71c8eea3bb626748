"""Requests that decode together on one simulated instance.

Between two events the batch stays as it is and each step adds the same number of tokens, so whole
stretches of steps are taken at once: a step's time is linear in the context, hence n steps take n
times the step at the mean context. Requests with equally many finished siblings advance alike and
share a clock of tokens; a request ends when its class's clock has come to its end.
"""

import heapq
from dataclasses import dataclass, field

from seer.costmodel.step_time import StepTime
from seer.simulator.speculation import NO_DRAFTS, Plan, Speculation
from seer.types import RequestId

_CLOSE = 1e-6
"""Tokens (or steps) within which a request (or a step) counts as ended: the error of sums of
floats."""


@dataclass(slots=True)
class _Class:
    """Running requests that advance alike."""

    siblings: int
    clock: float = 0.0
    """Tokens that each of them has advanced since the class was made."""
    rate: float = 1.0
    """Tokens a step."""
    count: int = 0
    heap: list[tuple[float, int, RequestId]] = field(default_factory=list)


@dataclass(slots=True)
class _Member:
    of: _Class
    end: float
    """The class's clock at which the request ends."""
    serial: int
    num_tokens: float
    """Tokens that it was to generate when it joined its batch."""


class DecodeBatch:
    """The batch of one instance; time is told with every call and never goes back."""

    def __init__(
        self, step_time: StepTime, speculation: Speculation | None = None, slowdown: float = 1.0
    ) -> None:
        self.now = 0.0
        self.context_tokens = 0.0
        """KV tokens read a step, over all requests."""
        self.growth = 0.0
        """Tokens that a step adds, over all requests."""
        self._step_time = step_time
        self._speculation = speculation
        self._slowdown = slowdown
        self._members: dict[RequestId, _Member] = {}
        self._classes: dict[int, _Class] = {}
        self._plan: Plan = NO_DRAFTS
        self._stalled_until = 0.0
        self._stalled_from = 0.0
        self._num_steps = 0.0
        """Since the batch was last empty."""
        self._num_added = 0

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._members

    def requests(self) -> list[RequestId]:
        """Running requests, in the order in which they joined."""
        return list(self._members)

    def add(
        self, request_id: RequestId, num_tokens: float, context_tokens: float, siblings: int
    ) -> None:
        """A request joins, to generate `num_tokens` after `context_tokens` of context."""
        if not self._members:
            self._num_steps = 0.0
        self._insert(request_id, num_tokens, num_tokens, siblings)
        self.context_tokens += context_tokens
        self._replan()

    def remove(self, request_id: RequestId, context_before: float) -> float:
        """A request leaves; returns the tokens that it has generated since it joined."""
        member = self._members.pop(request_id)
        member.of.count -= 1
        done = member.num_tokens - max(0.0, member.end - member.of.clock)
        self.context_tokens = max(0.0, self.context_tokens - context_before - done)
        self._replan()
        return done

    def done(self, request_id: RequestId) -> float:
        """Tokens that a running request has generated since it joined."""
        member = self._members[request_id]
        return member.num_tokens - (member.end - member.of.clock)

    def set_siblings(self, request_id: RequestId, siblings: int) -> None:
        """More siblings of a running request are finished."""
        member = self._members.pop(request_id)
        member.of.count -= 1
        self._insert(request_id, member.end - member.of.clock, member.num_tokens, siblings)
        self._replan()

    def stall(self, seconds: float) -> None:
        """Nothing decodes for some time, as prompts are computed or KV is copied."""
        seconds *= self._slowdown
        if self._stalled_until <= self.now:
            self._stalled_from = self.now
        self._stalled_until = max(self._stalled_until, self.now) + seconds

    def advance(self, now: float) -> None:
        """Decode until `now`."""
        begin = max(self.now, min(self._stalled_until, now))
        if self._members and now > begin:
            self._step(self._steps_within(now - begin))
        self.now = max(self.now, now)

    def next_end(self) -> tuple[float, float] | None:
        """When the next request ends, and how many steps that is; None: nothing runs."""
        steps = None
        for each in self._classes.values():
            self._drop_outdated(each)
            if each.heap:
                needed = max(0.0, (each.heap[0][0] - each.clock) / each.rate)
                steps = needed if steps is None else min(steps, needed)
        return None if steps is None else (self.time_after(steps), steps)

    def time_after(self, steps: float) -> float:
        """When so many steps of this batch will be over."""
        return max(self.now, self._stalled_until) + self._seconds(steps)

    def step_to(self, now: float, steps: float) -> None:
        """Advance by so many steps, which are over at `now` (as `time_after` has told)."""
        self._step(steps)
        self.now = now

    def next_step(self) -> float:
        """When a step may begin with what is added: now, or when the one that goes on is over.

        A stall is part of the step before which it began.
        """
        begun = self._num_steps % 1.0
        if not self._members:
            return max(self.now, self._stalled_until)
        if min(begun, 1.0 - begun) > _CLOSE:
            return self.time_after(1.0 - begun)
        is_between = self._stalled_until <= self.now or self._stalled_from == self.now
        return self.now if is_between else self.time_after(1.0)

    def take_ended(self) -> list[RequestId]:
        """Requests that have come to their end, each once; to be removed by the caller."""
        ended = []
        for each in self._classes.values():
            self._drop_outdated(each)
            while each.heap and each.heap[0][0] <= each.clock + _CLOSE:
                ended.append(each.heap[0][2])
                heapq.heappop(each.heap)
                self._drop_outdated(each)
        return sorted(ended, key=lambda request_id: self._members[request_id].serial)

    def _insert(
        self, request_id: RequestId, num_left: float, num_tokens: float, siblings: int
    ) -> None:
        of = self._classes.setdefault(siblings, _Class(siblings))
        self._num_added += 1
        end = of.clock + num_left
        self._members[request_id] = _Member(of, end, self._num_added, num_tokens)
        of.count += 1
        heapq.heappush(of.heap, (end, self._num_added, request_id))

    def _drop_outdated(self, of: _Class) -> None:
        while of.heap:
            _, serial, request_id = of.heap[0]
            member = self._members.get(request_id)
            if member is not None and member.serial == serial:
                return
            heapq.heappop(of.heap)

    def _replan(self) -> None:
        """The batch has changed: draft lengths and rates follow."""
        if self._speculation is None:
            self.growth = float(len(self._members))
            return
        for siblings in [s for s, each in self._classes.items() if not each.count]:
            del self._classes[siblings]
        if not self._members:
            self.growth = 0.0
            return
        counts = {siblings: each.count for siblings, each in self._classes.items()}
        self._plan = self._speculation.plan(counts, self.context_tokens)
        self.growth = 0.0
        for each in self._classes.values():
            each.rate = self._speculation.rate(self._plan, each.siblings)
            self.growth += each.rate * each.count

    def _seconds(self, steps: float) -> float:
        """Time of so many steps of this batch."""
        count = len(self._members)
        drafted = count * self._plan.draft_tokens
        context = self.context_tokens + self.growth * steps / 2
        seconds = self._step_time.step_s(count, count + drafted, context)
        if drafted:
            seconds += self._step_time.draft_s(count, drafted)
        return steps * seconds * self._slowdown

    def _steps_within(self, seconds: float) -> float:
        """Steps that fit into a time: a fixed point, as the mean context depends on them."""
        steps = 0.0
        for _ in range(4):
            per_step = self._seconds(1.0) if steps == 0 else self._seconds(steps) / steps
            steps = seconds / per_step
        return steps

    def _step(self, steps: float) -> None:
        for each in self._classes.values():
            each.clock += steps * each.rate
        self.context_tokens += steps * self.growth
        self._num_steps += steps
