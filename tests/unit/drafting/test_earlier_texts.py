"""Texts of earlier weights, by prompt."""

import numpy as np
import pytest

from seer.drafting.earlier_texts import HALF_LIFE_VERSIONS, EarlierTexts, Text
from seer.errors import InvalidInput

PROMPT = np.array([1, 2, 3], np.int32)


def _text(length: int, token: int = 7) -> Text:
    return np.full(length, token, np.int32)


def test_only_earlier_versions_count() -> None:
    """A group begins with what older weights wrote to its prompt, the longest first."""
    earlier = EarlierTexts()
    earlier.keep(PROMPT, 3, [_text(4), _text(9), _text(0)])
    assert earlier.texts(PROMPT, 3) == []
    assert [len(text) for text in earlier.texts(PROMPT, 4)] == [9, 4]
    assert earlier.texts(PROMPT[:2], 4) == []


def test_older_versions_give_fewer_texts() -> None:
    """Half of them after a half-life, none in the end; newer versions come first."""
    earlier = EarlierTexts()
    earlier.keep(PROMPT, 0, [_text(5)] * 8)
    assert len(earlier.texts(PROMPT, 1)) == 7
    assert len(earlier.texts(PROMPT, HALF_LIFE_VERSIONS)) == 4
    assert earlier.texts(PROMPT, 10 * HALF_LIFE_VERSIONS) == []
    earlier.keep(PROMPT, HALF_LIFE_VERSIONS - 1, [_text(2, 9)])
    assert earlier.texts(PROMPT, HALF_LIFE_VERSIONS)[0].tolist() == [9, 9]


def test_memory_is_bounded() -> None:
    """Prompts that were not seen for longest are forgotten first; repeats replace."""
    earlier = EarlierTexts(max_tokens=10)
    other = np.array([5], np.int32)
    earlier.keep(PROMPT, 0, [_text(6)])
    earlier.keep(PROMPT, 0, [_text(4)])
    assert earlier.num_tokens == 4
    earlier.keep(other, 0, [_text(5)])
    earlier.keep(PROMPT, 1, [_text(1)])
    earlier.keep(np.array([6], np.int32), 0, [_text(1)])
    assert earlier.texts(other, 1) == []
    assert earlier.num_tokens == 6
    assert len(earlier.texts(PROMPT, 2)) == 2


def test_bad_limit() -> None:
    """Less than nothing cannot be kept."""
    with pytest.raises(InvalidInput, match="max_tokens"):
        EarlierTexts(max_tokens=-1)
