"""A user's file with a reward that kills the training run when a file beside it says so."""

import os
import signal
from pathlib import Path
from typing import Any


def share_of_digits(completion: str, **_: Any) -> float:
    """Digits among the characters of a response; `armed` counts the calls down to the kill."""
    armed = Path(__file__).with_name("armed")
    if armed.exists():
        left = int(armed.read_text()) - 1
        armed.write_text(str(left))
        if left == 0:
            os.kill(os.getppid(), signal.SIGKILL)
    return sum(each.isdigit() for each in completion) / max(len(completion), 1)
