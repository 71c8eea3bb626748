"""Drafts from what the other members of a group have written (paper section 3.4).

One suffix tree a group, shared by all of its requests on this instance. It learns from every token
generated here, and from earlier chunks when a request arrives; what runs elsewhere meanwhile is not
seen. A tree belongs to one version of the weights: other weights would write other texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seer.drafting.suffix_tree import Cursor, SuffixTree, speculate_batch
from seer.engines.serving.drafting import Drafter, NoDrafts, draft_length
from seer.types import Chunk, RequestId


@dataclass(slots=True)
class _Reader:
    """A request that runs here, in its group's tree."""

    tree: SuffixTree
    cursor: Cursor
    num_tokens: int
    """Output tokens that the request has."""


class GroupDrafter:
    """Chains of up to `length` tokens out of the groups' trees."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._weight_version = 0
        self._trees: dict[int, SuffixTree] = {}
        self._readers: dict[RequestId, _Reader] = {}

    def begin(self, chunk: Chunk) -> None:
        """Give the request a place in its group's tree, with its output so far."""
        if chunk.weight_version != self._weight_version:
            self._trees.clear()
            self._weight_version = chunk.weight_version
        request_id = chunk.request_id
        tree = self._trees.get(request_id.group)
        if tree is None:
            tree = self._trees[request_id.group] = SuffixTree()
            tree.set_prompt(chunk.prompt_token_ids)
        tree.append(request_id.member, 0, chunk.output_token_ids)
        cursor = tree.cursor(request_id.member)
        self._readers[request_id] = _Reader(tree, cursor, len(chunk.output_token_ids))

    def draft(self, request_ids: Sequence[RequestId], max_tokens: Sequence[int]) -> list[list[int]]:
        """Ask all trees in one call. Requests whose group was dropped get nothing."""
        drafts: list[list[int]] = [[] for _ in request_ids]
        places = [i for i, name in enumerate(request_ids) if name in self._readers]
        if not places:
            return drafts
        limits = np.minimum(np.array(max_tokens, dtype=np.int32)[places], self._length)
        cursors = [self._readers[request_ids[i]].cursor for i in places]
        found = speculate_batch(cursors, limits.astype(np.int32))
        for k, i in enumerate(places):
            drafts[i] = found.token_ids[found.nodes(k)].tolist()
        return drafts

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        """Let the group learn the request's new tokens."""
        reader = self._readers.get(request_id)
        if reader is not None:
            reader.tree.append(request_id.member, reader.num_tokens, token_ids)
            reader.num_tokens += len(token_ids)

    def end(self, request_id: RequestId) -> None:
        """Let go of the request's place; what it wrote stays in the tree."""
        self._readers.pop(request_id, None)

    def drop_group(self, group: int) -> None:
        """Forget the group's tree."""
        self._trees.pop(group, None)
        for request_id in [name for name in self._readers if name.group == group]:
            del self._readers[request_id]


def make_drafter(drafting: str) -> Drafter:
    """The drafter of a setting. Raises InvalidInput on a bad one."""
    length = draft_length(drafting)
    return GroupDrafter(length) if length else NoDrafts()
