"""A user's file with a reward function that misbehaves as it is told."""

import os
import time
from typing import Any

NOT_A_FUNCTION = 1


def score(completion: str, prompt: str, task: str, entry: dict[str, Any]) -> object:
    """The response says what to do; 0.25 for the right answer to the prompt `?`, else 0.5."""
    match completion:
        case "raise":
            raise KeyError("nothing there")
        case "hang":
            time.sleep(600)
        case "die":
            os._exit(3)
        case "nan":
            return float("nan")
        case "list":
            return [1.0]
        case "none":
            return None
        case "print":
            print("hello", flush=True)  # noqa: T201 - what users do
    is_right = (task, prompt, completion) == ("chain_sum", "?", entry["answer"])
    return 0.25 if is_right else 0.5
