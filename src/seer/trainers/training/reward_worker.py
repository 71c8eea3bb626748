"""A process that computes rewards: `python -m seer.trainers.training.reward_worker FD`.

It answers one call at a time over the connection FD and ends with its owner: standard input ends
then. Verifiers and reward functions are other people's code, and may hang or crash.
"""

import functools
import importlib
import importlib.util
import math
import numbers
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from seer.errors import InvalidInput
from seer.subprocesses import end_with_owner
from seer.trainers.training.answers import find_answer
from seer.trainers.training.reasoning import DataSet
from seer.trainers.training.reward_messages import (
    NotAReward,
    NotReady,
    Outcome,
    Raised,
    Ready,
    RewardCall,
    RewardRules,
    Scored,
)

RewardFunction = Callable[..., object]

_SHOWN_CHARACTERS = 200
_CACHED_ENTRIES = 64
"""Items kept, as all responses of a group need the same one."""


class Scorer:
    """The rules, carried out."""

    def __init__(self, rules: RewardRules) -> None:
        """Load everything that the rules name. Raises InvalidInput."""
        self._rules = rules
        self._data_sets: list[DataSet] = [ref.open() for ref in rules.data_sets]
        self._entry = functools.lru_cache(maxsize=_CACHED_ENTRIES)(self._make_entry)
        self._function: RewardFunction | None = None
        if rules.reward_function is not None:
            self._function = load_function(rules.reward_function)

    def score(self, call: RewardCall) -> Outcome:
        """The outcome of one call, whatever the code behind it does."""
        try:
            return self._score(call)
        except Exception as error:  # noqa: BLE001 - other people's code; reported with its sample
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            return Raised(why=f"{type(error).__name__}: {error} ({where})")

    def _score(self, call: RewardCall) -> Outcome:
        entry = self._entry(call.data_set, call.index)
        if self._function is None or call.by_verifier:
            return self._verify(call, entry)
        task = self._rules.data_sets[call.data_set].task.name
        value = self._function(completion=call.response, prompt=call.prompt, task=task, entry=entry)
        number = finite_number(value)
        if number is None:
            return _not_a_reward(value)
        return Scored(reward=number, is_correct=None)

    def _make_entry(self, data_set: int, index: int) -> dict[str, Any]:
        return self._data_sets[data_set][index]

    def _verify(self, call: RewardCall, entry: dict[str, Any]) -> Outcome:
        form = self._rules.data_sets[call.data_set].task.answer
        answer = find_answer(call.response, form)
        value = self._data_sets[call.data_set].score_answer(answer, entry)
        score = finite_number(value)
        if score is None:
            return _not_a_reward(value)
        is_correct = score >= 1
        reward = score if self._rules.partial_credit else float(is_correct)
        bonus = 0.0 if answer is None else self._rules.format_bonus
        return Scored(reward=reward + bonus, is_correct=is_correct)


def load_function(named: str) -> RewardFunction:
    """The function that `module:function` or `file.py:function` names. Raises InvalidInput."""
    place, _, name = named.rpartition(":")
    if not place or not name:
        raise InvalidInput(
            "reward_function", named, "allowed: module:function or path/to/file.py:function"
        )
    try:
        module = _load_file(place) if place.endswith(".py") else importlib.import_module(place)
        function = getattr(module, name)
    except Exception as error:  # a user's file may raise anything
        why = f"{type(error).__name__}: {error}"
        raise InvalidInput("reward_function", named, f"cannot be loaded ({why})") from error
    if not callable(function):
        raise InvalidInput("reward_function", named, "allowed: the name of a function")
    return function  # type: ignore[no-any-return]  # called with keywords, returns what it likes


def finite_number(value: object) -> float | None:
    """The value as a float; None when it is no number, NaN or infinite."""
    if not isinstance(value, numbers.Real):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _not_a_reward(value: object) -> NotAReward:
    shown = repr(value)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "..."
    return NotAReward(returned=shown)


def _load_file(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("seer_reward_file", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Load what the first message names, then answer calls until the connection ends."""
    end_with_owner()
    connection = Connection(int(sys.argv[1]))
    rules = msgspec.json.decode(connection.recv_bytes(), type=RewardRules)
    try:
        scorer = Scorer(rules)
    except InvalidInput as error:
        refusal = NotReady(field=error.field, value=str(error.value), allowed=error.allowed)
        connection.send_bytes(msgspec.json.encode(refusal))
        return
    connection.send_bytes(msgspec.json.encode(Ready()))
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        outcome = scorer.score(msgspec.json.decode(message, type=RewardCall))
        connection.send_bytes(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main()
