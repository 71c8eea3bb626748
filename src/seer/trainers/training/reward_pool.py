"""Reward processes: calls with a time limit, which neither a hang nor a crash can stop."""

import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, Self

import msgspec

from seer.errors import EngineFailure, InvalidInput
from seer.subprocesses import child_command, child_environment
from seer.trainers.training.reward_messages import (
    Answer,
    NotReady,
    Outcome,
    Raised,
    Ready,
    RewardCall,
    RewardRules,
)

MODULE = "seer.trainers.training.reward_worker"
START_TIMEOUT_S = 120.0
"""Time to import the verifiers; nothing to do with the time limit of a call."""
EXIT_TIMEOUT_S = 2.0


class RewardPool:
    """A few processes that score responses. Use as a context manager.

    A process that exceeds the limit is killed and another one started in its place.
    """

    def __init__(
        self, rules: RewardRules, *, num_workers: int, timeout_s: float, log_path: Path
    ) -> None:
        self._rules = rules
        self._timeout_s = timeout_s
        self._log_path = log_path
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="seer-reward")
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._workers: set[_Worker] = set()
        self._num_workers = num_workers
        self._is_closed = False

    def __enter__(self) -> Self:
        """Start the processes. Raises InvalidInput when the rules name what cannot be loaded."""
        try:
            starts = [self._threads.submit(self._start) for _ in range(self._num_workers)]
            for start in starts:
                self._idle.put(start.result())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        """End the processes; calls that wait or run end as `Raised`."""
        self.close()

    def submit(self, call: RewardCall) -> Future[Outcome]:
        """Score one response as soon as a process is free."""
        return self._threads.submit(self._carry_out, call)

    def close(self) -> None:
        """As `__exit__`."""
        self._is_closed = True
        for worker in list(self._workers):
            worker.kill()
        self._threads.shutdown(cancel_futures=True)

    def _start(self) -> "_Worker":
        worker = _Worker(self._rules, self._log_path)
        self._workers.add(worker)
        worker.wait_until_ready()
        return worker

    def _carry_out(self, call: RewardCall) -> Outcome:
        # As many threads as processes: there is always an idle one here.
        worker = self._idle.get()
        try:
            outcome = worker.score(call, self._timeout_s)
        except _Gone as gone:
            outcome = Raised(why=str(gone))
            worker.kill()
            self._workers.discard(worker)
            if not self._is_closed:
                worker = self._start()
        self._idle.put(worker)
        return outcome


class _Gone(Exception):
    """The process did not answer in time, or is no more."""


class _Worker:
    """One process and our end of its connection."""

    def __init__(self, rules: RewardRules, log_path: Path) -> None:
        ours, theirs = Pipe()
        with theirs, log_path.open("ab") as log:
            self._process = _start_process(theirs, log)
        self._connection = ours
        ours.send_bytes(msgspec.json.encode(rules))

    def wait_until_ready(self) -> None:
        """Raises InvalidInput for rules that cannot be followed, EngineFailure for a dead start."""
        try:
            answer = self._receive(START_TIMEOUT_S)
        except _Gone as gone:
            self.kill()
            raise EngineFailure(f"a reward process did not start: {gone}") from gone
        if isinstance(answer, NotReady):
            raise InvalidInput(answer.field, answer.value, answer.allowed)

    def score(self, call: RewardCall, timeout_s: float) -> Outcome:
        """The outcome. Raises _Gone when there is none within the time."""
        try:
            self._connection.send_bytes(msgspec.json.encode(call))
        except OSError as error:
            raise _Gone(f"the reward process is gone ({error})") from error
        answer = self._receive(timeout_s)
        assert not isinstance(answer, Ready | NotReady)  # noqa: S101 - said once, at the start
        return answer

    def kill(self) -> None:
        """End the process and reap it."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _receive(self, timeout_s: float) -> Answer:
        try:
            if not self._connection.poll(timeout_s):
                raise _Gone(f"no answer within {timeout_s:g} s")
            return msgspec.json.decode(self._connection.recv_bytes(), type=Answer)
        except (EOFError, OSError) as error:
            code = self._exit_code()
            how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            raise _Gone(f"the reward process ended ({how})") from error

    def _exit_code(self) -> int:
        """Of a process that has given up its end of the connection, and so should be ending."""
        try:
            return self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _start_process(connection: Connection, log: BinaryIO) -> subprocess.Popen[bytes]:
    """A process of its own session, as signals from the terminal are ours alone to handle."""
    descriptor = connection.fileno()
    return subprocess.Popen(  # noqa: S603 - our own module
        [*child_command(MODULE), str(descriptor)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env=child_environment(),
        pass_fds=(descriptor,),
        start_new_session=True,
    )
