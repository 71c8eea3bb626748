"""Drafts from what all members of a group have written (paper section 3.4).

The instance's draft client keeps one suffix tree a group, of what is generated here and, through
the draft server, on the other instances. The planner decides how much of each draft a step
verifies, by what was accepted so far and by how long steps take.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.costmodel.step_time import StepTime
from seer.drafting.acceptance import AcceptanceStatistics
from seer.drafting.config import DraftingConfig, make_budget
from seer.drafting.draft_client import ClientSettings, DraftClient
from seer.drafting.draft_server import DraftServer
from seer.drafting.group_copy import DraftRequest
from seer.drafting.messages import GroupKey
from seer.drafting.planner import Planner, RunningBatch
from seer.drafting.sharded_server import link_to
from seer.drafting.suffix_tree import Drafts, DraftSettings
from seer.engines.serving.draft import NO_DRAFT, Draft
from seer.types import Chunk, RequestId

GROUP_TTL_S = 120.0
"""How long a group's tree is kept after its last request here ended: one may come back soon."""


@dataclass(slots=True)
class _Running:
    """A request that runs here."""

    chunk: Chunk
    place: DraftRequest


class GroupDrafter:
    """Drafts of one instance's requests, out of their groups' trees."""

    def __init__(self, client: DraftClient, planner: Planner) -> None:
        """Takes the client over: starts its exchange, and closes it."""
        self._client = client
        self._planner = planner
        self._running: dict[RequestId, _Running] = {}
        self._weight_version = 0
        self._last: Drafts | None = None
        """Of the last step, if it had any."""
        self._num_verified: Sequence[int] = ()
        """Of its drafts."""
        self._new_tokens: dict[RequestId, list[int]] = {}
        """Of its requests since, in its order."""
        client.start()

    def begin(self, chunk: Chunk) -> None:
        """Give the request a place in its group's tree, with its output so far."""
        if chunk.weight_version != self._weight_version:
            self._forget_groups()
            self._weight_version = chunk.weight_version
        request_id = chunk.request_id
        key = GroupKey(request_id.group, chunk.weight_version)
        self._client.register_group(key, chunk.prompt_token_ids, ttl_s=GROUP_TTL_S)
        place = self._client.open(key, request_id.member, chunk.output_token_ids)
        self._running[request_id] = _Running(chunk, place)

    def draft(
        self, request_ids: Sequence[RequestId], max_depths: Sequence[int], context_tokens: int
    ) -> Sequence[Draft]:
        """Ask all trees in one call, and cut every draft to what pays."""
        self._teach()
        running = [self._running[name] for name in request_ids]
        batch = _seen_by_planner(running, max_depths)
        limits = self._planner.limits(batch)
        if not limits.any():
            return [NO_DRAFT] * len(running)
        found = self._client.speculate(
            [each.place for each in running], limits, self._planner.settings(len(batch))
        )
        self._last = found
        self._num_verified = [0] * len(running)
        self._new_tokens = {name: [] for name in request_ids}
        return _cut(found, self._planner.plan(batch, found, context_tokens))

    def learn(self, num_verified: Sequence[int], accepted: Sequence[Sequence[int]]) -> None:
        """Note what was verified; the new tokens tell what of it was right, and more."""
        del accepted
        self._num_verified = num_verified

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        """Let the group learn the request's new tokens."""
        new_tokens = self._new_tokens.get(request_id)
        if new_tokens is not None:
            new_tokens += token_ids
        place = self._running[request_id].place
        self._client.append(place, place.num_tokens, token_ids)

    def end(self, request_id: RequestId) -> None:
        """Let go of the request's place; what it wrote stays in the tree."""
        self._client.end(self._running.pop(request_id).place)

    def close(self) -> None:
        """End the exchange with the draft server."""
        self._client.close()

    def _teach(self) -> None:
        """Tell the planner what became of the last drafts; how much it verifies rests on that."""
        if self._last is not None:
            verified = np.array(self._num_verified, np.int32)
            self._planner.observe(self._last, verified, list(self._new_tokens.values()))
            self._last = None

    def _forget_groups(self) -> None:
        """Other weights write other texts: their groups begin anew."""
        for key in self._client.group_keys:
            self._client.drop_group(key)


def make_drafter(
    config: DraftingConfig, vocab_size: int, step_time: StepTime | None
) -> GroupDrafter:
    """The drafter of a setting that is not `off`. `step_time` where the budget asks for it."""
    server = config.server
    link = DraftServer(vocab_size=vocab_size) if server is None else link_to(server)
    settings = ClientSettings(
        vocab_size=vocab_size,
        fetch_period_s=config.fetch_period_s,
        warm_start=config.warm_start,
    )
    client = DraftClient(link, settings)
    budget = make_budget(config.budget, step_time)
    return GroupDrafter(client, Planner(budget, DraftSettings(), AcceptanceStatistics()))


def _seen_by_planner(running: Sequence[_Running], max_depths: Sequence[int]) -> RunningBatch:
    chunks = [each.chunk for each in running]
    return RunningBatch(
        num_tokens_left=np.array(max_depths, np.int32) + 1,
        is_probe=np.array([chunk.is_probe for chunk in chunks], np.bool_),
        weights=np.array([chunk.draft_weight for chunk in chunks], np.float64),
    )


def _cut(found: Drafts, counts: NDArray[np.int32]) -> list[Draft]:
    """The first nodes of each draft."""
    starts = found.offsets[:-1].tolist()
    tokens, parents = found.token_ids.tolist(), found.parents.tolist()
    return [
        Draft(tokens[start : start + count], parents[start : start + count]) if count else NO_DRAFT
        for start, count in zip(starts, counts.tolist(), strict=True)
    ]
