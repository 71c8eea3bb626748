"""A made-up model whose texts can be foretold and whose KV can be checked.

The token at a place is a hash of (seed, sampling group, member, position in the output), and the
response ends at a length keyed the same way. The KV of a position is a hash of all tokens up to it
(as a real model's is), and every step checks the KV of the whole context it builds on: a block that
was moved, copied, reused or accounted for wrongly fails the step and names the position.
"""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seer.costmodel.step_time import StepTime, SurfaceStepTime
from seer.engines.keyed import mix64, uniforms
from seer.engines.serving.draft import ROOT, Draft
from seer.engines.serving.draw_places import DrawPlaces, draw_places
from seer.engines.serving.step_model import BlockMemory, Draws, TokenMove
from seer.engines.serving.step_plan import Planned
from seer.errors import EngineFailure, InvalidInput

WORD_BYTES = 8
EOS_TOKEN_ID = 0
_LENGTH_POSITION = -1
"""Position whose uniform number gives the length: no token is drawn there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptShape:
    """Sizes of the model and its KV."""

    vocab_size: int
    block_size: int
    num_blocks: int
    kv_words: int
    """Words of 8 bytes of a token's KV."""
    min_length: int
    max_length: int
    step_time_s: float


class ScriptedModel:
    """Runs planned steps: checks the KV under each row, writes the rows' own, draws tokens."""

    def __init__(self, shape: ScriptShape, decode: Callable[[Sequence[int]], str]) -> None:
        self._shape = shape
        self._decode = decode
        self._memory = ScriptedMemory(shape)
        self._weights = 0

    @property
    def memory(self) -> BlockMemory:
        """Its KV memory."""
        return self._memory

    @property
    def eos_token_ids(self) -> Sequence[int]:
        """The end token."""
        return (EOS_TOKEN_ID,)

    def salt(self, weight_version: int) -> bytes:
        """Names the KV: sizes and weights."""
        shape = self._shape
        return f"scripted:{shape.block_size}:{shape.kv_words}:{weight_version}".encode()

    def load(self, path: str) -> None:
        """Take other "weights": the KV changes with the path, the texts do not.

        Raises InvalidInput unless `path` is a directory.
        """
        if not Path(path).is_dir():
            raise InvalidInput("path", path, "allowed: an existing directory")
        self._weights = zlib.crc32(path.encode())

    def step(self, planned: Sequence[Planned]) -> Draws:
        """One step. Raises EngineFailure when KV that a row builds on is not what it should be."""
        if self._shape.step_time_s:
            time.sleep(self._shape.step_time_s)
        for item in planned:
            self._feed(item)
        return self._draw(draw_places(planned))

    def move_tokens(self, moves: Sequence[TokenMove]) -> None:
        """Copy words."""
        for move in moves:
            self._memory.move_token(move)

    def step_time(self) -> StepTime:
        """Every step sleeps for the same time, whatever it feeds."""
        return SurfaceStepTime(fixed_s=max(self._shape.step_time_s, 1e-6))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of tokens."""
        return self._decode(token_ids)

    def _feed(self, item: Planned) -> None:
        rows = item.rows
        start = rows.first_position
        tokens = [*item.run.token_ids[:start], *rows.token_ids]
        words = kv_words(tokens, self._shape.kv_words, self._weights)
        held = self._memory.gather(rows.blocks, start)
        wrong = np.flatnonzero((held != words[:start]).any(axis=1))
        if wrong.size:
            name = item.run.chunk.request_id
            raise EngineFailure(f"request {name}: wrong KV at position {wrong[0]} of {start}")
        guessed = self._draft_words(tokens, rows.draft)
        self._memory.scatter(rows.blocks, start, np.concatenate([words[start:], guessed]))

    def _draft_words(self, tokens: Sequence[int], draft: Draft) -> NDArray[np.uint64]:
        """KV [nodes, words] of a draft after `tokens`: of each node on its own path."""
        words = np.empty((len(draft), self._shape.kv_words), dtype=np.uint64)
        paths: list[list[int]] = []
        for node, parent in enumerate(draft.parents):
            paths.append([*([] if parent == ROOT else paths[parent]), draft.token_ids[node]])
            path = [*tokens, *paths[node]]
            words[node] = kv_words(path, self._shape.kv_words, self._weights)[-1]
        return words

    def _draw(self, places: DrawPlaces) -> Draws:
        numbers = places.uniforms()
        tokens = _tokens(numbers, self._shape.vocab_size).tolist()
        for i, chunk in enumerate(places.chunks):
            length = scripted_length(
                self._shape, chunk.sampling.seed, chunk.sampling_group, chunk.request_id.member
            )
            if places.positions[i] == length - 1:
                tokens[i] = EOS_TOKEN_ID
        return Draws(token_ids=tokens, logprobs=(-numbers).tolist())


class ScriptedMemory:
    """KV memory: 8-byte words in [block, token, word]."""

    def __init__(self, shape: ScriptShape) -> None:
        self._words = np.zeros(
            (shape.num_blocks, shape.block_size, shape.kv_words), dtype=np.uint64
        )
        self._block_size = shape.block_size

    @property
    def num_blocks(self) -> int:
        """Blocks that may be handed out."""
        return self._words.shape[0]

    def read_block(self, block: int) -> memoryview:
        """Bytes of a block: a view."""
        return memoryview(self._words[block].reshape(-1).view(np.uint8))

    def write_block(self, block: int, payload: memoryview) -> None:
        """Replace the bytes of a block."""
        words = np.frombuffer(payload, dtype=np.uint64)
        self._words[block] = words.reshape(self._words.shape[1:])

    def copy_block(self, source: int, target: int) -> None:
        """Copy one block over another."""
        self._words[target] = self._words[source]

    def move_token(self, move: TokenMove) -> None:
        """Copy the words of one token."""
        source = self._words[move.source_block, move.source_offset]
        self._words[move.target_block, move.target_offset] = source

    def gather(self, blocks: Sequence[int], num_tokens: int) -> NDArray[np.uint64]:
        """KV [tokens, words] of the first `num_tokens` positions under a block table."""
        count = -(-num_tokens // self._block_size)
        held = self._words[np.array(blocks[:count], dtype=np.int64)]
        return held.reshape(-1, self._words.shape[2])[:num_tokens]

    def scatter(self, blocks: Sequence[int], start: int, words: NDArray[np.uint64]) -> None:
        """Write the KV of positions from `start` on."""
        positions = np.arange(start, start + len(words))
        table = np.array(blocks, dtype=np.int64)
        self._words[table[positions // self._block_size], positions % self._block_size] = words


def scripted_length(shape: ScriptShape, seed: int, group: int, member: int) -> int:
    """Tokens of a response, its end token included."""
    position = np.array([_LENGTH_POSITION], dtype=np.int64)
    number = float(uniforms(seed, group, member, position)[0])
    return shape.min_length + int(number * (shape.max_length - shape.min_length + 1))


def scripted_output(shape: ScriptShape, seed: int, group: int, member: int) -> list[int]:
    """The whole response that an engine of this shape gives, if nothing else ends it."""
    length = scripted_length(shape, seed, group, member)
    numbers = uniforms(seed, group, member, np.arange(length - 1, dtype=np.int64))
    return [*_tokens(numbers, shape.vocab_size).tolist(), EOS_TOKEN_ID]


def kv_words(token_ids: Sequence[int], num_words: int, weights: int) -> NDArray[np.uint64]:
    """KV [tokens, words] of every position: hashes of the tokens up to it."""
    tokens = np.asarray(token_ids, dtype=np.int64).astype(np.uint64)
    places = mix64(np.arange(len(tokens), dtype=np.uint64) + np.uint64(weights + 1))
    chain: NDArray[np.uint64] = np.cumsum(mix64(tokens ^ places), dtype=np.uint64)
    columns: NDArray[np.uint64] = np.arange(num_words, dtype=np.uint64)
    return chain[:, None] + columns


def _tokens(numbers: NDArray[np.float64], vocab_size: int) -> NDArray[np.int64]:
    """Tokens 1 to vocab_size - 1 by uniform numbers."""
    return 1 + (numbers * (vocab_size - 1)).astype(np.int64)
