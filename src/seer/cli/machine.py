"""What a measurement must name: the machine and the commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that a number belongs to."""

    cpu: str
    cores: int
    memory_bytes: int
    python: str


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 0,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=platform.python_version(),
    )


def installed_version() -> str:
    """Version of the installed distribution; empty when seer runs from a source tree alone."""
    try:
        return version("seer-rl")
    except PackageNotFoundError:
        return ""


def current_commit() -> str:
    """The commit that this source file belongs to; empty when no repository tracks it."""
    here = Path(__file__)
    if not _git(here.parent, "ls-files", here.name):
        return ""
    return _git(here.parent, "describe", "--always", "--dirty")


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
