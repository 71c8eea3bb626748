"""A batch of recorded requests that grow side by side as a budget decides; what it came to."""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from completions import Group
from numpy.typing import NDArray

from seer.costmodel.step_time import StepTime
from seer.drafting.outcomes import accepted_nodes
from seer.drafting.planner import Planner, RunningBatch
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

    def take(self, count: int) -> list[int]:
        """Generate `count` tokens, or what is left."""
        tokens = self.rest[:count]
        self.tree.append(self.request_id.member, self.done, tokens)
        self.done += len(tokens)
        return tokens.tolist()


@dataclass
class Tally:
    """Sums over the steps of a full batch, and lists with an entry for each step."""

    num_requests: int
    tokens: int = 0
    fed: list[int] = field(default_factory=list)
    """Tokens fed: one for each request, and the verified nodes."""
    context: list[int] = field(default_factory=list)
    """KV tokens read."""
    own_s: float = 0.0
    """Measured: what planning, drafting and learning took of this thread, over all steps."""

    @property
    def tokens_a_step(self) -> float:
        """Acceptance length: tokens of a request in a step, the bonus token included."""
        return self.tokens / (len(self.fed) * self.num_requests)

    @property
    def nodes_a_step(self) -> float:
        """Verified nodes of a request in a step."""
        return float(np.mean(self.fed)) / self.num_requests - 1

    @property
    def own_ms_a_step(self) -> float:
        """Measured: mean milliseconds of planning, drafting and learning in a step."""
        return self.own_s / len(self.fed) * 1e3

    def tokens_per_s(self, step_time: StepTime, more_s: float = 0.0) -> float:
        """Simulated: by the seconds that the model gives for these steps, and `more_s` in all."""
        size = self.num_requests
        seconds = more_s + sum(
            step_time.step_s(size, fed, context) + step_time.draft_s(size, fed - size)
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
    began = time.thread_time()
    running = RunningBatch(
        num_tokens_left=np.array([limit - each.done for each in batch], np.int32),
        is_probe=np.array([each.request_id.member == 0 for each in batch], np.bool_),
        weights=np.ones(len(batch)),
    )
    limits = planner.limits(running)
    drafts = None
    num_verified = 0
    if limits.any():
        cursors = [each.cursor for each in batch]
        drafts = speculate_batch(cursors, limits, planner.settings(len(batch)))
        verified = planner.plan(running, drafts, context)
        num_verified = int(verified.sum())
    tally.own_s += time.thread_time() - began
    if drafts is None:
        new_tokens = [each.take(1) for each in batch]
    else:
        new_tokens = _verify(batch, drafts, verified)
        began = time.thread_time()
        planner.observe(drafts, verified, new_tokens)
        tally.own_s += time.thread_time() - began
    tally.fed.append(len(batch) + num_verified)
    tally.context.append(context)
    return sum(map(len, new_tokens))


def _verify(batch: list[Request], drafts: Drafts, verified: NDArray[np.int32]) -> list[list[int]]:
    """What each request generates: the accepted nodes' tokens and one more."""
    new_tokens = []
    for request, start, count in zip(batch, drafts.offsets, verified, strict=False):
        nodes = slice(start, start + count)
        right = accepted_nodes(drafts.token_ids[nodes], drafts.parents[nodes], request.rest)
        new_tokens.append(request.take(int(np.count_nonzero(right)) + 1))
    return new_tokens


def _tree(group: Group) -> SuffixTree:
    tree = SuffixTree()
    if len(group.prompt):
        tree.set_prompt(group.prompt)
    return tree
