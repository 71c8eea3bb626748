"""The suffix tree against a naive one that looks through all texts for every question."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seer.drafting.suffix_tree import Drafts, DraftSettings, SuffixTree, speculate_batch

MEMBERS = 4
OWN_CONTEXT = 3
DOUBTS = [(16, 0.3), (8, 0.6), (4, 2.1), (2, 3.3), (0, 4.0)]
"""Least match length and occurrences of doubt."""

Tokens = tuple[int, ...]


@dataclass
class NaiveTree:
    """Texts, and answers found by search."""

    max_depth: int
    prompt: Tokens
    weight: int
    outputs: list[Tokens] = field(default_factory=lambda: [()] * MEMBERS)
    log: list[tuple[Tokens, int]] = field(default_factory=list)
    """Every token appended: the text up to it, and its place."""

    def text(self, member: int) -> Tokens:
        return self.prompt + self.outputs[member]

    def counts(self, context: Tokens) -> Counter[int]:
        """What followed `context`, the prompt's own continuations `weight` times."""
        found: Counter[int] = Counter()
        for text, first, weight in [
            (self.prompt, 0, self.weight),
            *((self.text(m), len(self.prompt), 1) for m in range(MEMBERS)),
        ]:
            for end in range(max(first, len(context)), len(text)):
                if text[end - len(context) : end] == context:
                    found[text[end]] += weight
        return found

    def ends(self, context: Tokens) -> set[Tokens]:
        """Beginnings of texts that end with `context`."""
        texts = [self.text(member) for member in range(MEMBERS)]
        beginnings = {text[:end] for text in texts for end in range(len(text) + 1)}
        return {b for b in beginnings if b[len(b) - len(context) :] == context}

    def continued(self, text: Tokens) -> Tokens:
        """The longest suffix of at most max_depth tokens that was followed by anything."""
        suffix = text[max(0, len(text) - self.max_depth) :]
        while suffix and not self.counts(suffix):
            suffix = suffix[1:]
        return suffix

    def shorten(self, context: Tokens) -> Tokens:
        """The longest suffix that ends at more places."""
        suffix = context[1:]
        while suffix and self.ends(suffix) == self.ends(context):
            suffix = suffix[1:]
        return suffix

    def next_tokens(
        self, context: Tokens, own: int | None, weights: DraftSettings
    ) -> dict[int, tuple[float, Tokens]]:
        """Probability of each token that may follow, and the context it is then in."""
        longer = self.counts(context) if context else Counter[int]()
        shorter_context = self.shorten(context)
        shorter = self.counts(shorter_context) if shorter_context else Counter[int]()
        doubt, doubt_short = _doubt(len(context)), _doubt(len(shorter_context))
        recency = weights.recency_weight if context else 0
        recency_short = weights.recency_weight if shorter_context else 0
        bonus = 0 if own is None else weights.own_weight
        mass = longer.total() + recency + bonus + doubt
        mass_short = shorter.total() - longer.total() + recency_short + doubt_short
        answers = {}
        for token in {*longer, *shorter, *([] if own is None else [own])}:
            short = shorter[token] - longer[token]
            short += recency_short * (token == self.recent(shorter_context))
            p_short = short / mass_short if token in shorter else 0
            count = (
                longer[token] + recency * (token == self.recent(context)) + bonus * (token == own)
            )
            known = context if token in longer else shorter_context if token in shorter else ()
            probability = (count + doubt * p_short) / mass
            answers[token] = (probability, self.continued((*known, token)))
        return answers

    def recent(self, context: Tokens) -> int | None:
        """What followed `context` last."""
        for text, end in reversed(self.log):
            if end >= len(context) and text[end - len(context) : end] == context:
                return text[end]
        return None


def _doubt(match_length: int) -> float:
    return next(doubt for least, doubt in DOUBTS if match_length >= least)


class NaiveNode(NamedTuple):
    """A node of a draft."""

    probability: float
    path: Tokens
    context: Tokens


def _own_token(output: Tokens, path: Tokens) -> int | None:
    """What the output itself went on with after `path`, where it was here before."""
    place = _own_place(output)
    if place is None or output[place:][: len(path)] != path:
        return None
    return output[place + len(path)] if place + len(path) < len(output) else None


def _own_place(output: Tokens) -> int | None:
    """Where the output itself is expected to go on."""
    seen: dict[Tokens, int] = {}
    place: int | None = None
    for end in range(OWN_CONTEXT, len(output) + 1):
        context = output[end - OWN_CONTEXT : end]
        agrees = place is not None and output[place] == output[end - 1]
        place = place + 1 if agrees and place is not None else seen.get(context)
        seen[context] = end
    return place


def _append(tree: SuffixTree, naive: NaiveTree, member: int, tokens: Tokens) -> None:
    output = naive.outputs[member]
    assert tree.append(member, len(output), tokens) == len(output) + len(tokens)
    naive.outputs[member] = output + tokens
    text = naive.text(member)
    naive.log += [(text[: end + 1], end) for end in range(len(text) - len(tokens), len(text))]


@st.composite
def groups(draw: st.DrawFn) -> tuple[SuffixTree, NaiveTree]:
    """A tree and its naive twin after random appends; few tokens, so that they repeat."""
    alphabet = draw(st.integers(1, 3))
    tokens = st.lists(st.integers(0, alphabet - 1), max_size=6).map(tuple)
    naive = NaiveTree(
        draw(st.sampled_from([1, 2, 4, 6, 20])), draw(tokens), draw(st.integers(1, 3))
    )
    tree = SuffixTree(max_depth=naive.max_depth)
    tree.set_prompt(naive.prompt, weight=naive.weight)
    naive.log += [(naive.prompt, end) for end in range(len(naive.prompt))]
    early = draw(st.booleans())  # a cursor asked for early sees the same as one asked for late
    if early:
        tree.cursor(0)
    appends = st.lists(st.tuples(st.integers(0, MEMBERS - 1), tokens), max_size=8)
    for member, piece in draw(appends):
        _append(tree, naive, member, piece)
    return tree, naive


@settings(max_examples=150, deadline=None)
@given(groups())
def test_counts_are_those_of_the_texts(pair: tuple[SuffixTree, NaiveTree]) -> None:
    """Every context up to max_depth counts what followed it, the prompt by its weight."""
    tree, naive = pair
    tree.check_integrity()
    texts = [naive.text(member) for member in range(MEMBERS)]
    contexts = {
        text[start:end]
        for text in texts
        for end in range(len(text) + 1)
        for start in range(max(0, end - naive.max_depth), end + 1)
    }
    for context in contexts:
        found = naive.counts(context)
        assert [tree.count(context, t) for t in range(3)] == [found[t] for t in range(3)]


@settings(max_examples=150, deadline=None)
@given(groups())
def test_match_is_the_longest_continued_suffix(pair: tuple[SuffixTree, NaiveTree]) -> None:
    """A cursor holds the longest suffix of its text that anything followed."""
    tree, naive = pair
    for member in range(MEMBERS):
        expected = naive.continued(naive.text(member))
        assert tree.cursor(member).match_length == len(expected)


@settings(max_examples=100, deadline=None)
@given(
    groups(), st.sampled_from([0.0, 0.0123, 0.057, 0.131]), st.integers(1, 3), st.integers(0, 20)
)
def test_drafts_are_the_best_nodes_by_the_estimate(
    pair: tuple[SuffixTree, NaiveTree], least: float, top_k: int, budget: int
) -> None:
    """Drafted are the nodes that a search by the written formula finds, with its probabilities."""
    tree, naive = pair
    rules = DraftSettings(top_k=top_k, min_probability=least)
    drafts = speculate_batch([tree.cursor(m) for m in range(MEMBERS)], budget, rules)
    for member in range(MEMBERS):
        expected = _naive_draft(naive, member, rules, budget)
        nodes = drafts.nodes(member)
        # Estimates that differ by rounding only may be drafted in either order.
        got = drafts.probabilities[nodes]
        assert got.tolist() == pytest.approx(expected, abs=1e-5)
        _check_paths(naive, member, rules, drafts)


def _naive_draft(naive: NaiveTree, member: int, rules: DraftSettings, budget: int) -> list[float]:
    """Probabilities of the best nodes, in order."""

    def children(node: NaiveNode) -> list[NaiveNode]:
        own = _own_token(naive.outputs[member], node.path)
        answers = naive.next_tokens(node.context, own, rules)
        ranked = sorted(answers.items(), key=lambda item: (-item[1][0], item[0]))[: rules.top_k]
        made = [
            NaiveNode(p * node.probability, (*node.path, token), after)
            for token, (p, after) in ranked
        ]
        return [m for m in made if m.probability >= rules.min_probability and m.probability > 0]

    open_nodes = children(NaiveNode(1.0, (), naive.continued(naive.text(member))))
    best: list[float] = []
    while open_nodes and len(best) < budget:
        open_nodes.sort(key=lambda node: node.probability)
        node = open_nodes.pop()
        best.append(node.probability)
        open_nodes += children(node)
    return best


def _check_paths(naive: NaiveTree, member: int, rules: DraftSettings, drafts: Drafts) -> None:
    """Each node's probability is the product of the formula's along its path."""
    nodes = drafts.nodes(member)
    tokens, parents = drafts.token_ids[nodes].tolist(), drafts.parents[nodes].tolist()
    places = {-1: NaiveNode(1.0, (), naive.continued(naive.text(member)))}
    for node, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
        probability, path, context = places[parent]
        own = _own_token(naive.outputs[member], path)
        p, after = naive.next_tokens(context, own, rules)[token]
        places[node] = NaiveNode(p * probability, (*path, token), after)
        got = float(drafts.probabilities[nodes][node])
        assert got == pytest.approx(p * probability, abs=1e-5)
    for parent in set(parents):
        siblings = [t for t, q in zip(tokens, parents, strict=True) if q == parent]
        assert len(siblings) == len(set(siblings)) <= rules.top_k


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_many_different_tokens(data: st.DataObject) -> None:
    """Contexts with more followers than a small block holds are counted right too."""
    seed = data.draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    tree = SuffixTree(max_depth=8)
    outputs = [np.empty(0, np.int32) for _ in range(3)]
    for _ in range(60):
        member = int(rng.integers(3))
        piece = rng.integers(0, 200, 20).astype(np.int32)
        piece[::2] = 7  # 7 is followed by everything
        tree.append(member, len(outputs[member]), piece)
        outputs[member] = np.concatenate([outputs[member], piece])
    tree.check_integrity()
    followers = Counter(int(t) for o in outputs for s, t in pairwise(o) if s == 7)
    assert {t: tree.count([7], t) for t in followers} == dict(followers)
