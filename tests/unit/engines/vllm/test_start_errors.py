"""Why vLLM did not start, found in its log."""

import os
from pathlib import Path

from seer.engines.vllm.start_errors import errors_in, logged_errors

LOG = """(EngineCore pid=7) ERROR 12-03 05:00:01 [core.py:1] Traceback (most recent call last):
(EngineCore pid=7) ERROR 12-03 05:00:01 [core.py:1] ValueError: no room for 8 blocks
(EngineCore pid=7) ValueError: no room for 8 blocks
RuntimeError: Engine core initialization failed. See root cause above.
"""


def test_errors_are_told_once() -> None:
    """Each error of the log, in order, without what vLLM writes before it."""
    assert errors_in(LOG) == [
        "ValueError: no room for 8 blocks",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    assert errors_in("all is well") == []


def test_log_file(tmp_path: Path) -> None:
    """Standard error is read where it is a file, from its end."""
    path = tmp_path / "stderr"
    path.write_text("x" * 100_000 + "\n" + LOG)
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        found = logged_errors()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert found[0] == "ValueError: no room for 8 blocks"
