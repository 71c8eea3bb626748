"""What earlier versions of the weights wrote to a prompt: where a new group's tree may begin. Pure.

Beyond the paper, whose trees live for one iteration. Responses to a prompt change slowly while a
policy is trained, so old ones still tell what comes next; the older, the fewer of them are kept.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seer.errors import InvalidInput

Text = NDArray[np.int32]

MAX_TOKENS = 4_000_000
"""Of all texts kept: 16 MB."""
HALF_LIFE_VERSIONS = 8
"""Half of a version's texts are used this many versions later."""


class EarlierTexts:
    """Responses by prompt and version of the weights; prompts not seen for longest go first."""

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        """Nothing kept. Raises InvalidInput when `max_tokens` is negative."""
        if max_tokens < 0:
            raise InvalidInput("max_tokens", max_tokens, "allowed: 0 or more")
        self._max_tokens = max_tokens
        self._num_tokens = 0
        self._prompts: OrderedDict[bytes, dict[int, list[Text]]] = OrderedDict()

    @property
    def num_tokens(self) -> int:
        """Tokens kept."""
        return self._num_tokens

    def keep(self, prompt: Text, version: int, texts: Sequence[Text]) -> None:
        """Keep responses, longest first; of a known version what was kept before is replaced."""
        ordered = sorted((text for text in texts if len(text)), key=len, reverse=True)
        if not ordered:
            return
        versions = self._prompts.setdefault(prompt.tobytes(), {})
        self._prompts.move_to_end(prompt.tobytes())
        self._num_tokens += _size(ordered) - _size(versions.get(version, []))
        versions[version] = ordered
        while self._num_tokens > self._max_tokens:
            _, dropped = self._prompts.popitem(last=False)
            self._num_tokens -= sum(map(_size, dropped.values()))

    def texts(self, prompt: Text, version: int) -> list[Text]:
        """Responses of versions before `version`, newest first, fewer of older ones."""
        versions = self._prompts.get(prompt.tobytes(), {})
        found: list[Text] = []
        for other in sorted(versions, reverse=True):
            if other < version:
                share = 0.5 ** ((version - other) / HALF_LIFE_VERSIONS)
                found += versions[other][: round(share * len(versions[other]))]
        return found


def _size(texts: Sequence[Text]) -> int:
    return sum(map(len, texts))
