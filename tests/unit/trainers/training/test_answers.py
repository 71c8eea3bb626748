"""Finding the answer in a response."""

import pytest

from seer.trainers.training.answers import find_answer
from seer.trainers.training.config import AnswerForm


@pytest.mark.parametrize(
    ("form", "response", "answer"),
    [
        ("whole", " 12 \n", "12"),
        ("whole", "  ", None),
        ("tag", "<answer>1</answer> no, <answer> 2\n</answer>", "2"),
        ("tag", "12", None),
        ("last_number", "8 - 3 = 5.", "5"),
        ("last_number", "8-3", "3"),
        ("last_number", "It is -4", "-4"),
        ("last_number", "1,234.5 in all", "1234.5"),
        ("last_number", "none", None),
    ],
)
def test_the_answer_in_each_form(form: AnswerForm, response: str, answer: str | None) -> None:
    """The last answer in the form asked for, or none."""
    assert find_answer(response, form) == answer
