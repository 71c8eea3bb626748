"""Tokens of KV that one instance holds, followed from the actions of a divided policy.

A group's prompt counts once, from its first member on the instance until it is dropped. A request
counts with what it has generated, while a chunk of it runs here and as long as its KV rests here
afterwards; within a chunk the tokens come evenly from its start to its end. Blocks that are only
reserved, and the unused end of a last block, do not count.
"""

from array import array

import numpy as np

from seer.report.series import Lines, lines_of_changes
from seer.types import KVKey, RequestId


class HeldKV:
    """KV objects of one instance; times in seconds."""

    def __init__(self) -> None:
        self._tokens: dict[KVKey, int] = {}
        self._times, self._jumps, self._slopes = array("d"), array("d"), array("d")

    def start(
        self, t: float, request_id: RequestId, num_prompt_tokens: int, num_generated: int
    ) -> None:
        """A chunk starts: prompt and earlier tokens are there or are brought here."""
        self._hold(t, KVKey(request_id.group), num_prompt_tokens)
        self._hold(t, request_id.kv_key, num_generated)

    def grow(self, start: float, end: float, request_id: RequestId, num_tokens: int) -> None:
        """A chunk has generated so many tokens between two times."""
        self._tokens[request_id.kv_key] += num_tokens
        if end > start:
            rate = num_tokens / (end - start)
            self._change(start, slope=rate)
            self._change(end, slope=-rate)
        else:
            self._change(end, jump=num_tokens)

    def drop(self, t: float, key: KVKey) -> None:
        """An object is freed; unknown ones are ignored."""
        num_tokens = self._tokens.pop(key, 0)
        if num_tokens:
            self._change(t, jump=-num_tokens)

    def clear(self, t: float) -> None:
        """Everything is gone."""
        for key in list(self._tokens):
            self.drop(t, key)

    def line(self) -> Lines:
        """Tokens held over time."""
        return lines_of_changes(
            np.array(self._times), np.array(self._jumps), np.array(self._slopes)
        )

    def _hold(self, t: float, key: KVKey, num_tokens: int) -> None:
        if key not in self._tokens:
            self._tokens[key] = num_tokens
            self._change(t, jump=num_tokens)

    def _change(self, t: float, *, jump: float = 0.0, slope: float = 0.0) -> None:
        self._times.append(t)
        self._jumps.append(jump)
        self._slopes.append(slope)
