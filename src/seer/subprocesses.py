"""Child processes of ours: how they are started, and where their files and sockets are.

A child is a fresh interpreter with our import path, so that a user's script is not imported again.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

_MAX_DIRECTORY = 90
"""Characters; a Unix socket's path may have about 100, its name included."""


def private_directory() -> Path:
    """A new directory (mode 0700) whose path is short enough for a Unix socket in it."""
    directory = tempfile.mkdtemp(prefix="seer-")
    if len(directory) > _MAX_DIRECTORY:
        Path(directory).rmdir()
        directory = tempfile.mkdtemp(prefix="seer-", dir="/tmp")
    return Path(directory)


def child_command(module: str) -> list[str]:
    """`python -m module`; the child's working directory is not put on its import path."""
    return [sys.executable, "-P", "-m", module]


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment and `extra`; the child finds every module that we find."""
    import_path = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return {**os.environ, **(extra or {}), "PYTHONPATH": import_path}


def end_owned(process: subprocess.Popen[bytes], limit_s: float) -> None:
    """End a child that watches its owner, by force after a while. Its stdin must be a pipe."""
    assert process.stdin is not None  # noqa: S101 - see above
    process.stdin.close()
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with_owner() -> None:
    """In a child: end this process when its standard input does, which its owner holds open.

    A child that leads a process group (of a session of its own) takes with it what it has started:
    an engine's own processes may not have got as far as watching us.
    """
    threading.Thread(target=_exit_at_end_of_input, name="seer-owner-watch", daemon=True).start()


def _exit_at_end_of_input() -> None:
    # Unbuffered: a thread that holds the buffer's lock would upset the interpreter's shutdown.
    while os.read(sys.stdin.fileno(), 1):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
