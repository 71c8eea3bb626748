"""When a request is done."""

from collections.abc import Callable, Sequence

from seer.types import SamplingParams

_SLACK_TOKENS = 4
"""Extra tokens decoded before a stop string: a character may spread over several tokens."""

Decode = Callable[[Sequence[int]], str]


class StopCheck:
    """Decides after each token of one request whether it ends there."""

    def __init__(
        self, sampling: SamplingParams, eos_token_ids: Sequence[int], decode: Decode
    ) -> None:
        self._token_ids = set(sampling.stop_token_ids)
        if not sampling.ignore_eos:
            self._token_ids.update(eos_token_ids)
        self._strings = sampling.stop
        self._decode = decode
        self._window = max((len(text) for text in self._strings), default=0) + _SLACK_TOKENS

    def stops(self, token_ids: Sequence[int], num_prompt: int) -> bool:
        """Whether the response ends with the last of `token_ids` (prompt and output).

        A stop string is looked for in the text of the last output tokens only: each token but for
        partial characters adds at least one, so the window covers a string that has just ended.
        """
        if token_ids[-1] in self._token_ids:
            return True
        if not self._strings:
            return False
        tail = self._decode(token_ids[max(num_prompt, len(token_ids) - self._window) :])
        return any(text in tail for text in self._strings)
