"""Why vLLM did not start: another process of it logs the reason, and ours hears that one exists."""

import os
import re
import stat

_READ_BYTES = 64 * 1024
_MOST = 3
_ERROR = re.compile(r"\b\w+(?:Error|Exception): .+")


def logged_errors() -> list[str]:
    """The last different errors in what this process and those below it wrote to standard error.

    Nothing where that is no file: then it is on the user's screen.
    """
    try:
        file = os.open(f"/proc/{os.getpid()}/fd/2", os.O_RDONLY)
    except OSError:
        return []
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return []
        start = max(0, status.st_size - _READ_BYTES)
        return errors_in(os.pread(file, _READ_BYTES, start).decode(errors="replace"))
    finally:
        os.close(file)


def errors_in(log: str) -> list[str]:
    """The last different lines of a log that name an error, in order."""
    found = dict.fromkeys(match.group() for match in _ERROR.finditer(log))
    return list(found)[-_MOST:]
