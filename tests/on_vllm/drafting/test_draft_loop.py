"""What a drafter is told of vLLM's batches, and what vLLM gets from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from seer.engines.serving.draft import Draft, chain
from seer.engines.vllm.drafting.draft_loop import Arrival, Batch, DraftLoop
from seer.engines.vllm.drafting.identity import chunk_of, extra_args
from seer.errors import InvalidInput
from seer.types import Chunk, RequestId, SamplingParams

WIDTH = 64


@dataclass
class TellingDrafter:
    """Guesses 7, 8, 9 for everyone, and keeps what it is told."""

    texts: dict[RequestId, list[int]] = field(default_factory=dict)
    learned: list[tuple[list[int], list[list[int]]]] = field(default_factory=list)
    drafted: list[RequestId] = field(default_factory=list)
    ended: list[RequestId] = field(default_factory=list)
    refuses: bool = False

    def begin(self, chunk: Chunk) -> None:
        if self.refuses:
            raise InvalidInput("token_ids", 0, "allowed: none")
        self.texts[chunk.request_id] = [*chunk.prompt_token_ids, *chunk.output_token_ids]

    def draft(
        self, request_ids: Sequence[RequestId], max_depths: Sequence[int], context_tokens: int
    ) -> list[Draft]:
        assert context_tokens == sum(len(self.texts[each]) for each in request_ids)
        self.drafted = list(request_ids)
        return [chain([7, 8, 9][:depth]) for depth in max_depths]

    def learn(self, num_verified: Sequence[int], accepted: Sequence[Sequence[int]]) -> None:
        self.learned.append((list(num_verified), [list(each) for each in accepted]))

    def extend(self, request_id: RequestId, token_ids: Sequence[int]) -> None:
        self.texts[request_id] += token_ids

    def end(self, request_id: RequestId) -> None:
        self.ended.append(request_id)
        del self.texts[request_id]

    def close(self) -> None:
        """Nothing is open."""


class Worker:
    """vLLM's worker: rows of requests with a prompt of four tokens."""

    def __init__(self, drafter: TellingDrafter, *, uniform: bool = False) -> None:
        self.loop = DraftLoop(drafter, 3, uniform=uniform)
        self.rows: dict[str, list[int]] = {}
        self.alive: set[str] = set()
        self.max_length = 40

    def step(self, sampled: dict[str, list[int]]) -> dict[str, list[int]]:
        """A step of the requests named."""
        names = list(sampled)
        for name in names:
            self.alive.add(name)
            self.rows.setdefault(name, [1, 2, 3, 4]).extend(sampled[name])
        token_ids = np.zeros((len(names), WIDTH), np.int32)
        for i, name in enumerate(names):
            token_ids[i, : len(self.rows[name])] = self.rows[name]
        batch = Batch(
            names=names,
            sampled=list(sampled.values()),
            lengths=[len(self.rows[name]) for name in names],
            token_ids=token_ids,
        )
        guesses = self.loop.step(batch, lambda row: self.arrival(names[row]), self.alive)
        return dict(zip(names, guesses, strict=True))

    def arrival(self, name: str) -> Arrival:
        """Members a, b, ... of group 5."""
        text = self.rows[name]
        extra = {"seer_request": [5, ord(name[0]) - ord("a")], "seer_prompt_tokens": 4}
        return Arrival(chunk=chunk_of(name, extra, text[:4], text[4:]), max_length=self.max_length)


A, B = RequestId(5, 0), RequestId(5, 1)


def test_requests_are_followed_token_by_token() -> None:
    """A drafter knows of each request its whole text, and of a draft what was right."""
    drafter = TellingDrafter()
    worker = Worker(drafter)
    assert worker.step({"a": [5], "b": []}) == {"a": [7, 8, 9], "b": []}
    worker.step({"a": [7, 8, 2], "b": [6]})
    assert drafter.texts == {A: [1, 2, 3, 4, 5, 7, 8, 2], B: [1, 2, 3, 4, 6]}
    assert drafter.learned == [([3], [[0, 1]])]
    worker.step({"a": [7, 8, 9, 1], "b": [3]})
    assert drafter.learned[1:] == [([3, 3], [[0, 1, 2], []])]


def test_who_leaves_the_batch_is_let_go_once_it_has_ended() -> None:
    """A preempted request is kept, a finished one is not."""
    drafter = TellingDrafter()
    worker = Worker(drafter)
    worker.step({"a": [5], "b": [6]})
    worker.step({"b": [6]})
    assert drafter.ended == []
    worker.alive.remove("a")
    worker.step({"b": [6], "c": [1]})
    assert drafter.ended == [A]


def test_the_next_chunk_of_a_request_takes_the_place_of_the_last() -> None:
    """Another vLLM request with the same identity goes on, also in the step the first one ends."""
    drafter = TellingDrafter()
    worker = Worker(drafter)
    worker.step({"a": [5]})
    worker.rows["a-2"] = [1, 2, 3, 4, 5]
    worker.step({"a-2": [6]})
    assert drafter.ended == [A]
    assert drafter.texts == {A: [1, 2, 3, 4, 5, 6]}


def test_a_step_that_was_not_told_is_made_up_for() -> None:
    """Tokens between two calls reach the drafter; what became of its draft is not guessed at."""
    drafter = TellingDrafter()
    worker = Worker(drafter)
    worker.step({"a": [5]})
    worker.rows["a"] += [7, 3]
    worker.step({"a": [4]})
    assert drafter.texts == {A: [1, 2, 3, 4, 5, 7, 3, 4]}
    assert drafter.learned == [([0], [[]])]


def test_guesses_end_before_the_last_token() -> None:
    """The last token of a chunk needs no guess, and none lies beyond it."""
    worker = Worker(TellingDrafter())
    worker.max_length = 7
    assert worker.step({"a": [5]}) == {"a": [7]}
    assert worker.step({"a": [6]}) == {"a": []}
    assert worker.step({"a": [6]}) == {"a": []}


def test_uniform_drafts_are_of_one_length_or_none() -> None:
    """Rows that decode are filled up; what fills up does not count as a guess."""
    drafter = TellingDrafter()
    worker = Worker(drafter, uniform=True)
    worker.max_length = 7
    assert worker.step({"a": [5], "b": []}) == {"a": [7, 5, 5], "b": []}
    worker.step({"a": [7, 5, 1], "b": [2]})
    assert drafter.learned == [([1], [[0]])]
    worker.max_length = 6
    assert worker.step({"c": [5]}) == {"c": []}


def test_a_request_that_the_drafter_cannot_take_goes_on_without() -> None:
    """No guesses for it, and no error."""
    drafter = TellingDrafter(refuses=True)
    worker = Worker(drafter)
    assert worker.step({"a": [5]}) == {"a": []}
    assert worker.step({"a": [6]}) == {"a": []}


def test_a_chunk_survives_its_way_through_vllm() -> None:
    """What the drafter asks of a chunk is carried by extra_args and vLLM's prompt."""
    chunk = Chunk(
        request_id=RequestId(3, 2),
        chunk_index=4,
        sampling_group=3,
        prompt_token_ids=[1, 2],
        output_token_ids=[3],
        sampling=SamplingParams(),
        max_tokens=8,
        keep_kv=True,
        weight_version=6,
        is_probe=True,
        draft_weight=1.5,
    )
    found = chunk_of("x-1", extra_args(chunk), [1, 2, 3], [4])
    for name in ("request_id", "prompt_token_ids", "weight_version", "is_probe", "draft_weight"):
        assert getattr(found, name) == getattr(chunk, name)
    assert found.output_token_ids == [3, 4]


def test_strangers_with_one_prompt_are_a_group() -> None:
    """Requests without our arguments, as another driver sends them."""
    one, other = (chunk_of(name, None, [1, 2, 3], [4]).request_id for name in ("a", "b"))
    assert one.group == other.group
    assert one.member != other.member
    assert chunk_of("a", {}, [1, 2], [3]).request_id.group != one.group


@pytest.mark.parametrize("value", [None, "7", [1], [1, 2, 3], [-1, 0], [1.0, 2]])
def test_malformed_arguments_count_as_missing(value: object) -> None:
    """They come from outside, and may not end the engine."""
    extra = {"seer_request": value, "seer_draft_weight": "much", "seer_prompt_tokens": -3}
    chunk = chunk_of("a", extra, [1, 2, 3], [])
    assert chunk.request_id.group == chunk_of("a", None, [1, 2, 3], []).request_id.group
    assert chunk.prompt_token_ids == [1, 2, 3]
    assert chunk.draft_weight == 1.0
