"""Measures one drafter in a process of its own, for `suffix_tree.py`; reads JSON, prints JSON.

Runs under any Python that has numpy and the drafter that is named: `seer` or `arctic`
(arctic-inference's SuffixDecodingCache).
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

APPEND_TOKENS = 4
"""Tokens of one append: about what a step with drafts accepts."""
ROUNDS_PER_DRAFT = 8
"""Appends of each sequence between two timed drafts."""
MAX_DEPTH = 64

Draft = list[tuple[int, int]]
"""Tokens and parents of a draft's nodes; -1: no parent."""


class Subject(Protocol):
    """A drafter of one group."""

    def begin(self, prompt: np.ndarray, num_members: int) -> None:
        """Start a new group."""

    def append(self, member: int, tokens: np.ndarray) -> None:
        """Take a member's new output tokens, int32."""

    def draft_all(self, max_nodes: int) -> None:
        """Draft for every member, as an engine's step does."""

    def draft(self, member: int, max_nodes: int) -> Draft:
        """Draft for one member."""
        ...


class Seer:
    """Seer's tree of a group."""

    def __init__(self, *, top_k: int = 1, min_probability: float = 0.1) -> None:
        from seer.drafting import suffix_tree  # noqa: PLC0415 - only where it is the subject

        self.module = suffix_tree
        self.settings = suffix_tree.DraftSettings(top_k=top_k, min_probability=min_probability)

    def begin(self, prompt: np.ndarray, num_members: int) -> None:
        """A tree of the prompt, a cursor for each member."""
        self.tree = self.module.SuffixTree(max_depth=MAX_DEPTH)
        if len(prompt):
            self.tree.set_prompt(prompt)
        self.cursors = [self.tree.cursor(member) for member in range(num_members)]
        self.lengths = [0] * num_members

    def append(self, member: int, tokens: np.ndarray) -> None:
        """Appended where the member ends."""
        self.lengths[member] = self.tree.append(member, self.lengths[member], tokens)

    def draft_all(self, max_nodes: int) -> None:
        """One call."""
        self.module.speculate_batch(self.cursors, max_nodes, self.settings)

    def draft(self, member: int, max_nodes: int) -> Draft:
        """A batch of one."""
        drafts = self.module.speculate_batch([self.cursors[member]], max_nodes, self.settings)
        return list(zip(drafts.token_ids.tolist(), drafts.parents.tolist(), strict=True))


class Arctic:
    """arctic-inference: a tree of all responses, and one of each request's prompt and output."""

    def __init__(self, *, tree: bool = False, factor: float = 1.0, min_prob: float = 0.1) -> None:
        from arctic_inference.suffix_decoding import SuffixDecodingCache  # noqa: PLC0415 - likewise

        self.make = lambda: SuffixDecodingCache(max_tree_depth=MAX_DEPTH)
        self.options = {
            "use_tree_spec": tree,
            "max_spec_factor": factor,
            "min_token_prob": min_prob,
        }

    def begin(self, prompt: np.ndarray, num_members: int) -> None:
        """A cache where every member is a request."""
        self.cache = self.make()
        self.texts = [np.empty(1 << 17, np.int32) for _ in range(num_members)]
        self.lengths = [len(prompt)] * num_members
        for member, text in enumerate(self.texts):
            text[: len(prompt)] = prompt
            self.cache.start_request(member, np.asarray(prompt, np.int32))

    def append(self, member: int, tokens: np.ndarray) -> None:
        """Also keeps the text: a draft takes the end of it."""
        self.cache.add_active_response(member, tokens)
        start = self.lengths[member]
        self.texts[member][start : start + len(tokens)] = tokens
        self.lengths[member] = start + len(tokens)

    def draft_all(self, max_nodes: int) -> None:
        """A call for each member: there is no other."""
        for member in range(len(self.texts)):
            self._speculate(member, max_nodes)

    def draft(self, member: int, max_nodes: int) -> Draft:
        """One call."""
        found = self._speculate(member, max_nodes)
        return list(zip(found.token_ids, found.parents, strict=True))

    def _speculate(self, member: int, max_nodes: int) -> Any:
        end = self.lengths[member]
        context = self.texts[member][max(0, end - MAX_DEPTH) : end]
        return self.cache.speculate(member, context, max_spec_tokens=max_nodes, **self.options)


def measure_streams(subject: Subject, streams: np.ndarray) -> dict[str, float]:
    """Time and memory of growing all streams together, (sequences, tokens)."""
    num_members, length = streams.shape
    subject.begin(np.empty(0, np.int32), num_members)
    for member in range(num_members):  # the first tokens warm the code up, untimed
        subject.append(member, streams[member, :APPEND_TOKENS])
    subject.draft_all(8)
    before = _resident_bytes()
    append_s = 0.0
    drafts = {8: [], 16: []}
    starts = range(APPEND_TOKENS, length - APPEND_TOKENS + 1, APPEND_TOKENS)
    for round_, start in enumerate(starts):
        pieces = list(streams[:, start : start + APPEND_TOKENS])
        began = time.perf_counter()
        for member, piece in enumerate(pieces):
            subject.append(member, piece)
        append_s += time.perf_counter() - began
        if round_ % ROUNDS_PER_DRAFT == 0:
            for max_nodes, times in drafts.items():
                began = time.perf_counter()
                subject.draft_all(max_nodes)
                times.append((time.perf_counter() - began) / num_members)
    num_tokens = len(starts) * APPEND_TOKENS * num_members
    return {
        "append_ns_per_token": append_s / num_tokens * 1e9,
        "speculate_8_us": float(np.median(drafts[8])) * 1e6,
        "speculate_16_us": float(np.median(drafts[16])) * 1e6,
        "bytes_per_token": (_resident_bytes() - before) / num_tokens,
    }


def replay(subject: Subject, groups: list[dict[str, Any]], max_nodes: int) -> dict[str, float]:
    """Draft against recorded outputs of groups whose members take steps in turn.

    Acceptance length is tokens a step, the bonus token included.
    """
    steps = drafted = tokens = 0
    for group in groups:
        outputs = [np.asarray(output, np.int32) for output in group["outputs"]]
        subject.begin(np.asarray(group["prompt"], np.int32), len(outputs))
        done = [0] * len(outputs)
        while running := [m for m, output in enumerate(outputs) if done[m] < len(output)]:
            for member in running:
                rest = outputs[member][done[member] :]
                draft = subject.draft(member, max_nodes)
                taken = min(_num_accepted(draft, rest.tolist()) + 1, len(rest))
                subject.append(member, rest[:taken])
                done[member] += taken
                steps += 1
                drafted += len(draft)
                tokens += taken
    return {"acceptance_length": tokens / steps, "drafted_per_step": drafted / steps}


def main() -> None:
    """One measurement, described by a JSON object on the command line."""
    job = json.loads(sys.argv[1])
    subject = {"seer": Seer, "arctic": Arctic}[job["subject"]](**job.get("options", {}))
    if "stream" in job:
        print(json.dumps(measure_streams(subject, np.load(job["data"])[job["stream"]])))
    else:
        groups = json.loads(Path(job["groups"]).read_text())
        print(json.dumps(replay(subject, groups, job["max_nodes"])))


def _num_accepted(draft: Draft, truth: list[int]) -> int:
    children = {(parent, token): node for node, (token, parent) in enumerate(draft)}
    node = -1
    for depth, token in enumerate(truth):
        if (node, token) not in children:
            return depth
        node = children[node, token]
    return len(truth)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
