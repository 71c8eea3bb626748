"""Finding the answer in a response."""

import re

from seer.trainers.training.config import AnswerForm

_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?")

_SUFFIXES: dict[AnswerForm, str] = {
    "whole": "\nReply with the answer only.",
    "tag": "\nGive the final answer between <answer> and </answer>.",
    "last_number": "\nEnd with the final number.",
}


def default_suffix(form: AnswerForm) -> str:
    """Text after a question that asks for the answer in that form."""
    return _SUFFIXES[form]


def find_answer(response: str, form: AnswerForm) -> str | None:
    """The answer in a response; None when it has none in that form.

    `last_number` reads 1,234 as 1234, and the minus of 8-3 as an operator.
    """
    match form:
        case "whole":
            return response.strip() or None
        case "tag":
            found = _TAG.findall(response)
            return found[-1].strip() if found else None
        case "last_number":
            numbers = _NUMBER.findall(response)
            return numbers[-1].replace(",", "") if numbers else None
