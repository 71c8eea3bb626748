"""A Mooncake master that ends with its owner: `python -m seer.kvpool.mooncake.master_process`.

Takes the master's arguments. The owner holds standard input open; the kernel ends the master with
this process, however that comes about.
"""

import ctypes
import os
import shutil
import signal
import sys
from pathlib import Path

from seer.subprocesses import end_with_owner

_PR_SET_PDEATHSIG = 1
NAME = "mooncake_master"


def find_master() -> str | None:
    """The master's executable: beside this interpreter, or on the path."""
    beside = Path(sys.executable).with_name(NAME)
    return str(beside) if beside.exists() else shutil.which(NAME)


def main() -> None:
    """Run the master until standard input ends."""
    executable = find_master()
    if executable is None:
        sys.exit(f"{NAME} is not installed")
    child = os.fork()
    if child == 0:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execv(executable, [NAME, *sys.argv[1:]])  # noqa: S606 - no shell is wanted
    end_with_owner()
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
