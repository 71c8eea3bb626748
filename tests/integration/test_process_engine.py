"""Engines in real child processes: the contract, and what happens when one dies."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from seer.engines.process import ProcessSpec
from seer.engines.process_engine import ProcessEngine
from seer.engines.scripted import ScriptedSpec
from seer.errors import EngineFailure, InstanceLost, InvalidInput
from seer.rollout.engine import InstanceSetup
from seer.types import ChunkResult, DropKV, KVKey, RequestId
from support.conformance import CHECKS, Check, run_check
from support.failing import CrashingSpec, RefusingSpec
from support.subjects import Subject, ignore

SCRIPTED = ScriptedSpec(num_blocks=16, step_time_s=0.0005)
SLOW = ScriptedSpec(step_time_s=0.02)
IN_FLIGHT = 3


def _subject(inner: ScriptedSpec, tmp_path: Path) -> Subject:
    return Subject(spec=ProcessSpec(inner=inner), weights_path=str(tmp_path))


@asynccontextmanager
async def _hosted(spec: ProcessSpec) -> AsyncIterator[ProcessEngine]:
    engine = await spec.launch(InstanceSetup(instance_id=4))
    assert isinstance(engine, ProcessEngine)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def _in_flight(
    engine: ProcessEngine, subject: Subject
) -> AsyncIterator[list[asyncio.Task[ChunkResult]]]:
    """Chunks that are being generated: each has reported progress."""
    reports: asyncio.Queue[RequestId] = asyncio.Queue()
    tasks = [
        asyncio.create_task(
            engine.run(
                subject.chunk(m, max_tokens=1000), lambda p: reports.put_nowait(p.request_id)
            )
        )
        for m in range(IN_FLIGHT)
    ]
    seen: set[RequestId] = set()
    while len(seen) < IN_FLIGHT:
        seen.add(await reports.get())
    yield tasks


async def _expect_all_lost(tasks: list[asyncio.Task[ChunkResult]], why: str) -> None:
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, InstanceLost)
        assert why in str(outcome)


@pytest.mark.parametrize("check", CHECKS)
def test_conformance(check: Check, tmp_path: Path) -> None:
    """A hosted engine keeps the contract of engines."""
    run_check(check, _subject(SCRIPTED, tmp_path))


def test_killed_child(tmp_path: Path) -> None:
    """SIGKILL ends every call at once with InstanceLost, and every later one."""

    async def check() -> None:
        subject = _subject(SLOW, tmp_path)
        async with (
            _hosted(ProcessSpec(inner=SLOW)) as engine,
            _in_flight(engine, subject) as tasks,
        ):
            started = time.monotonic()
            os.kill(engine.pid, signal.SIGKILL)
            await _expect_all_lost(tasks, "killed by signal 9")
            assert time.monotonic() - started < 2
            with pytest.raises(InstanceLost):
                await engine.move_kv(DropKV(key=KVKey(0)))

    asyncio.run(check())


def test_silent_child(tmp_path: Path) -> None:
    """A stopped child is found out by its missing heartbeats, killed and lost."""

    async def check() -> None:
        subject = _subject(SLOW, tmp_path)
        async with (
            _hosted(ProcessSpec(inner=SLOW, heartbeat_limit_s=0.5)) as engine,
            _in_flight(engine, subject) as tasks,
        ):
            os.kill(engine.pid, signal.SIGSTOP)
            await _expect_all_lost(tasks, "silent for")
            with pytest.raises(ProcessLookupError):
                os.kill(engine.pid, 0)

    asyncio.run(check())


def test_long_steps_are_not_silence(tmp_path: Path) -> None:
    """Heartbeats come while a step takes longer than the limit of silence."""
    inner = ScriptedSpec(step_time_s=1.0)

    async def check() -> None:
        async with _hosted(ProcessSpec(inner=inner, heartbeat_limit_s=0.5)) as engine:
            chunk = _subject(inner, tmp_path).chunk(0, max_tokens=1)
            assert len((await engine.run(chunk, ignore)).token_ids) == 1

    asyncio.run(check())


def test_failed_launch_says_why() -> None:
    """An engine that does not come up is an EngineFailure with its own words."""
    inner = ScriptedSpec(launch_failure="no luck today")
    with pytest.raises(EngineFailure, match="no luck today"):
        asyncio.run(ProcessSpec(inner=inner).launch(InstanceSetup(instance_id=0)))


def test_crashed_launch_shows_the_last_output() -> None:
    """A child that dies while it launches is an EngineFailure with its standard error."""
    with pytest.raises(EngineFailure, match=r"(?s)exit code 3.*about to crash"):
        asyncio.run(ProcessSpec(inner=CrashingSpec()).launch(InstanceSetup(instance_id=0)))


def test_refused_settings() -> None:
    """InvalidInput raised in the child is InvalidInput here."""
    with pytest.raises(InvalidInput) as caught:
        asyncio.run(ProcessSpec(inner=RefusingSpec()).launch(InstanceSetup(instance_id=0)))
    assert (caught.value.field, caught.value.value) == ("size", 7)


def test_launch_limit() -> None:
    """A child that is not ready in time is killed."""
    spec = ProcessSpec(inner=ScriptedSpec(), launch_limit_s=0.001)
    with pytest.raises(EngineFailure, match="did not start within"):
        asyncio.run(spec.launch(InstanceSetup(instance_id=0)))


def test_unknown_processor() -> None:
    """Processors that the machine lacks are refused by name."""
    setup = InstanceSetup(instance_id=0, cpus=(4095,))
    with pytest.raises(InvalidInput, match="cpus"):
        asyncio.run(ProcessSpec(inner=ScriptedSpec()).launch(setup))


def test_child_ends_with_its_owner(tmp_path: Path) -> None:
    """When the owner is killed its child ends too."""
    script = tmp_path / "owner.py"
    script.write_text(
        "import asyncio\n"
        "from seer.engines.process import ProcessSpec\n"
        "from seer.engines.scripted import ScriptedSpec\n"
        "from seer.rollout.engine import InstanceSetup\n"
        "async def main():\n"
        "    spec = ProcessSpec(inner=ScriptedSpec())\n"
        "    engine = await spec.launch(InstanceSetup(instance_id=0))\n"
        "    print(engine.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment
    ) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        owner.kill()
    deadline = time.monotonic() + 5
    while _is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing removes the private directory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def check() -> None:
        async with _hosted(ProcessSpec(inner=ScriptedSpec())):
            assert len(os.listdir(tmp_path)) == 1  # noqa: PTH208 - instant

    asyncio.run(check())
    assert list(tmp_path.iterdir()) == []


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
