"""The suffix tree of a group, and drafts from it: the typed face of the native module.

A tree holds the prompt and the outputs of one group (paper §3.4.2 and appendix A.2, "CST") and
counts what followed each context of up to `max_depth` tokens. It is right after every append.
Calls may come from several threads: a tree serves one at a time, and drafting runs without the GIL.
Dropping the tree and its cursors frees the whole group at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seer.drafting import _suffix_tree
from seer.errors import InvalidInput

__all__ = ["Cursor", "DraftSettings", "Drafts", "SuffixTree", "speculate_batch"]

Cursor = _suffix_tree.Cursor
"""The standing match of one request (`SuffixTree.cursor`); `match_length` is its tokens."""

MAX_DEPTH = 4096
"""Longest context that a tree may be asked to count."""

_ALLOWED_IDS = "allowed: a flat list of token ids, integers from 0 to 2^31 - 1"

TokenIds = Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSettings:
    """What is drafted and how evidence is weighed; see docs/drafting.md for the estimate.

    Raises:
        InvalidInput: A value is outside its bounds.
    """

    top_k: int = 1
    """Most children of a node; 1 drafts a chain, more a tree."""
    # Paper silent: it filters candidates by frequency and confidence without naming a threshold.
    min_probability: float = 0.05
    """Nodes whose estimated probability of acceptance is lower are left out."""
    # Paper silent on both weights; fitted on replays of real groups.
    recency_weight: float = 0.5
    """Occurrences that "followed here last" is worth."""
    own_weight: float = 0.3
    """Occurrences that "the request itself went on so" is worth."""

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise InvalidInput("top_k", self.top_k, "allowed: at least 1")
        if not 0 <= self.min_probability <= 1:
            raise InvalidInput("min_probability", self.min_probability, "allowed: 0 to 1")
        for field in ("recency_weight", "own_weight"):
            value = getattr(self, field)
            if not 0 <= value < float("inf"):
                raise InvalidInput(field, value, "allowed: 0 or more, finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Drafts of a batch of B requests with N nodes in all, as flat arrays.

    The nodes of request i are `nodes(i)`: best first, so that a parent comes before its children.
    """

    token_ids: NDArray[np.int32]
    """(N,)"""
    parents: NDArray[np.int32]
    """(N,) index of the parent among the request's own nodes; -1: follows the request's text."""
    probabilities: NDArray[np.float32]
    """(N,) estimated probability that the node is accepted, its path before it included."""
    offsets: NDArray[np.int32]
    """(B + 1,) first node of each request, and N."""
    match_lengths: NDArray[np.int32]
    """(B,) tokens at the end of the request's text that were found elsewhere, at most max_depth."""

    def nodes(self, request: int) -> slice:
        """Where the nodes of the request at this place of the batch lie."""
        return slice(int(self.offsets[request]), int(self.offsets[request + 1]))


class SuffixTree:
    """The suffix tree of one group; a single sequence is a group too."""

    def __init__(self, *, max_depth: int = 64) -> None:
        """An empty tree that counts what follows contexts of up to `max_depth` tokens.

        Raises:
            InvalidInput: The depth is out of bounds.
        """
        # Paper silent: the depth is not given; SuffixDecoding's published default is 64.
        if not 1 <= max_depth <= MAX_DEPTH:
            raise InvalidInput("max_depth", max_depth, f"allowed: 1 to {MAX_DEPTH}")
        self._tree = _suffix_tree.Tree(max_depth)

    def set_prompt(self, token_ids: TokenIds, *, weight: int = 1) -> None:
        """Make `token_ids` the text before every sequence, counted `weight` times in all.

        Raises:
            InvalidInput: A token id or the weight is not allowed, or the tree has a prompt or
                sequences.
        """
        # Paper silent: whether and how the prompt enters the tree is not said.
        if not 1 <= weight <= 1_000_000:  # noqa: PLR2004 - keeps counts in 32 bits
            raise InvalidInput("weight", weight, "allowed: 1 to 1000000")
        try:
            self._tree.set_prompt(_as_tokens(token_ids), weight)
        except ValueError:
            raise InvalidInput("token_ids", token_ids, _ALLOWED_IDS) from None
        except RuntimeError:
            raise InvalidInput(
                "token_ids", token_ids, "allowed: once, before the first sequence"
            ) from None

    def append(self, sequence: int, prev_num_tokens: int, token_ids: TokenIds) -> int:
        """Append output tokens to a sequence of the group, new or known; returns its length.

        Idempotent: `token_ids` stand at `prev_num_tokens` and on, and those that the tree has
        already are passed over (paper Table 5, `update_cst`).

        Raises:
            InvalidInput: A token id is not allowed, or tokens before these are missing.
        """
        try:
            return self._tree.append(sequence, prev_num_tokens, _as_tokens(token_ids))
        except IndexError:
            raise InvalidInput(
                "prev_num_tokens",
                prev_num_tokens,
                f"allowed: 0 to the length of sequence {sequence}",
            ) from None
        except ValueError:
            raise InvalidInput("token_ids", token_ids, _ALLOWED_IDS) from None

    def cursor(self, sequence: int, *, follow_own: bool = True) -> Cursor:
        """The standing longest match of a request whose output is `sequence`, new or known.

        It moves with `append`; asking it costs no search. `follow_own` also keeps where the request
        itself was in the same words (about 8 bytes a token), which `own_weight` needs.
        """
        return self._tree.cursor(sequence, follow_own)

    def count(self, context: TokenIds, next_token: int) -> int:
        """How often `next_token` followed `context`, a string of at most max_depth tokens."""
        return self._tree.count(_as_tokens(context), next_token)

    def check_integrity(self) -> None:
        """Recount everything from the texts; slow, for tests.

        Raises:
            RuntimeError: The tree contradicts its texts.
        """
        self._tree.check_integrity()

    @property
    def num_tokens(self) -> int:
        """Tokens of all texts, the prompt's included once."""
        return self._tree.num_tokens

    @property
    def num_sequences(self) -> int:
        """Sequences begun by an append or a cursor."""
        return self._tree.num_sequences

    @property
    def memory_usage(self) -> int:
        """Bytes reserved for the group."""
        return self._tree.memory_usage


def speculate_batch(
    cursors: Sequence[Cursor],
    max_nodes: int | NDArray[np.int32],
    settings: DraftSettings = DraftSettings(),
) -> Drafts:
    """Draft for a whole batch in one call (paper Table 6), of one group or of many.

    Args:
        cursors: One for each of B requests.
        max_nodes: Most nodes of each draft: one number, or (B,) int32, 0 for no draft.
        settings: Shape of the drafts and weights.

    Raises:
        InvalidInput: `max_nodes` is negative or not one for each request.
    """
    budgets = (
        np.full(len(cursors), max_nodes, np.int32) if isinstance(max_nodes, int) else max_nodes
    )
    try:
        token_ids, parents, probabilities, offsets, match_lengths = _suffix_tree.speculate_batch(
            cursors,
            budgets,
            settings.top_k,
            settings.min_probability,
            settings.recency_weight,
            settings.own_weight,
        )
    except ValueError:
        raise InvalidInput(
            "max_nodes", max_nodes, "allowed: 0 or more, one for each cursor"
        ) from None
    return Drafts(
        token_ids=token_ids,
        parents=parents,
        probabilities=probabilities,
        offsets=offsets,
        match_lengths=match_lengths,
    )


def _as_tokens(token_ids: TokenIds) -> NDArray[np.int32]:
    """As a flat int32 array; ValueError where the ids do not fit."""
    array = np.asarray(token_ids)
    if array.ndim != 1:
        raise ValueError("not flat")
    if array.dtype == np.int32:
        return np.ascontiguousarray(array)
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "iu" or array.max() > np.iinfo(np.int32).max or array.min() < 0:
        raise ValueError("not token ids")
    return np.ascontiguousarray(array, np.int32)
