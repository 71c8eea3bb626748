"""A batch of recorded requests that grow side by side as a budget decides; what it came to."""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from completions import Group
from numpy.typing import NDArray

from seer.costmodel.step_time import StepTime
from seer.drafting.acceptance import accepted_nodes
from seer.drafting.planner import Planner, RunningRequest
from seer.drafting.suffix_tree import Cursor, Drafts, SuffixTree, speculate_batch
from seer.types import RequestId

GROUPS_ABREAST = 4
"""Groups whose members take turns in the queue."""


@dataclass
class Request:
    """A recorded response that is generated anew."""

    request_id: RequestId
    num_prompt: int
    output: NDArray[np.int32]
    tree: SuffixTree
    """Of its group: the prompt, and what the group's requests have generated so far."""
    cursor: Cursor
    done: int = 0

    @property
    def rest(self) -> NDArray[np.int32]:
        """What it will generate."""
        return self.output[self.done :]

    def take(self, count: int) -> None:
        """Generate `count` tokens."""
        self.tree.append(self.request_id.member, self.done, self.rest[:count])
        self.done += count


@dataclass
class Tally:
    """Sums over the steps of a full batch, and lists with an entry for each step."""

    num_requests: int
    tokens: int = 0
    fed: list[int] = field(default_factory=list)
    """Tokens fed: one for each request, and the verified nodes."""
    context: list[int] = field(default_factory=list)
    """KV tokens read."""
    draft_s: list[float] = field(default_factory=list)
    """Measured: asking the trees."""
    plan_s: list[float] = field(default_factory=list)
    """Measured: limits before drafting, the plan after it, and learning."""

    @property
    def tokens_a_step(self) -> float:
        """Acceptance length: tokens of a request in a step, the bonus token included."""
        return self.tokens / (len(self.fed) * self.num_requests)

    @property
    def nodes_a_step(self) -> float:
        """Verified nodes of a request in a step."""
        return float(np.mean(self.fed)) / self.num_requests - 1

    @property
    def own_s(self) -> float:
        """Measured: median seconds of planning and of drafting in a step."""
        return float(np.median(self.plan_s) + np.median(self.draft_s))

    def tokens_per_s(self, step_time: StepTime, more_s: float = 0.0) -> float:
        """Simulated: by the seconds that the model gives for these steps, and `more_s` for each."""
        size = self.num_requests
        seconds = sum(
            step_time.step_s(size, fed, context) + step_time.draft_s(size, fed - size) + more_s
            for fed, context in zip(self.fed, self.context, strict=True)
        )
        return self.tokens / seconds


def queue(groups: Sequence[Group]) -> Iterator[Request]:
    """Requests without end: four groups abreast, their first members first, and then the next four.

    After the last group the first comes again, with nothing in its tree.
    """
    for start in itertools.count(0, GROUPS_ABREAST):
        numbers = range(start, start + GROUPS_ABREAST)
        abreast = [(number, groups[number % len(groups)]) for number in numbers]
        trees = [_tree(group) for _, group in abreast]
        for member in range(max(len(group.outputs) for _, group in abreast)):
            for (number, group), tree in zip(abreast, trees, strict=True):
                if member < len(group.outputs):
                    yield Request(
                        request_id=RequestId(number, member),
                        num_prompt=len(group.prompt),
                        output=group.outputs[member],
                        tree=tree,
                        cursor=tree.cursor(member),
                    )


def replay(
    requests: Iterator[Request], num_requests: int, planner: Planner, num_tokens: int, limit: int
) -> Tally:
    """Steps of a batch that the queue keeps full, until `num_tokens` are generated.

    The first member of a group is its probe. `limit` is the most tokens that a request may have.
    """
    tally = Tally(num_requests)
    batch = list(itertools.islice(requests, num_requests))
    while tally.tokens < num_tokens:
        tally.tokens += _step(batch, planner, limit, tally)
        batch = [each if len(each.rest) else next(requests) for each in batch]
    return tally


def _step(batch: list[Request], planner: Planner, limit: int, tally: Tally) -> int:
    """Draft, plan, verify, learn; returns the tokens generated."""
    context = sum(each.num_prompt + each.done for each in batch)
    times = [time.perf_counter()]
    seen = [
        RunningRequest(
            request_id=each.request_id,
            num_tokens_left=limit - each.done,
            is_probe=each.request_id.member == 0,
        )
        for each in batch
    ]
    limits, settings = planner.limits(seen), planner.settings(len(seen))
    times.append(time.perf_counter())
    drafts = speculate_batch([each.cursor for each in batch], limits, settings)
    times.append(time.perf_counter())
    verified = planner.plan(seen, drafts, context)
    times.append(time.perf_counter())
    accepted, taken = _verify(batch, drafts, verified)
    times.append(time.perf_counter())
    if verified.any():  # as the engine does: a step without drafts teaches nothing
        planner.observe(drafts, verified, accepted)
    times.append(time.perf_counter())
    before, drafting, after, _, learning = np.diff(times).tolist()
    tally.fed.append(len(batch) + int(verified.sum()))
    tally.context.append(context)
    tally.draft_s.append(drafting)
    tally.plan_s.append(before + after + learning)
    return taken


def _verify(
    batch: list[Request], drafts: Drafts, verified: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], int]:
    """(N,) which nodes are accepted, and the tokens generated: those and one for each request."""
    accepted = np.zeros(len(drafts.token_ids), np.bool_)
    total = 0
    places = zip(batch, drafts.offsets.tolist(), verified.tolist(), strict=False)
    for request, start, count in places:
        nodes = slice(start, start + count)
        right = accepted_nodes(drafts.token_ids[nodes], drafts.parents[nodes], request.rest)
        accepted[nodes] = right
        taken = min(int(np.count_nonzero(right)) + 1, len(request.rest))
        request.take(taken)
        total += taken
    return accepted, total


def _tree(group: Group) -> SuffixTree:
    tree = SuffixTree()
    if len(group.prompt):
        tree.set_prompt(group.prompt)
    return tree
