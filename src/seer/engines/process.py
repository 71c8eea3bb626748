"""Any engine in a child process, behind the same Engine protocol.

The child is a fresh interpreter (`python -m seer.engines.worker`), not a `multiprocessing` spawn: a
user's script is not imported again and needs no `__main__` guard. Calls and answers are msgspec
messages over a ZeroMQ socket in a private directory. When the process ends, or falls silent, every
call in flight raises InstanceLost at once.
"""

import shutil
from contextlib import AsyncExitStack

import msgspec

from seer.engines import messages
from seer.engines.channel import Channel
from seer.engines.child import Child
from seer.engines.process_engine import HostProcess, ProcessEngine
from seer.errors import InvalidInput, SeerError
from seer.rollout.engine import Engine, EngineSpec, InstanceSetup, Tokenizer
from seer.subprocesses import private_directory
from seer.types import EngineInfo

_HEARTBEATS_PER_LIMIT = 10
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class ProcessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts `inner` in a child process.

    `inner` is a msgspec struct of an importable module (not of `__main__`): the child imports its
    class by name and decodes its fields. Raises InvalidInput otherwise, at launch.
    """

    inner: EngineSpec
    heartbeat_limit_s: float = 60.0
    """A child that has been silent for this long is killed and counts as lost."""
    launch_limit_s: float = 600.0
    """A child that is not ready by then is killed."""

    def __post_init__(self) -> None:
        for field in ("heartbeat_limit_s", "launch_limit_s"):
            if not getattr(self, field) > 0:
                raise InvalidInput(field, getattr(self, field), "allowed: a number > 0")

    def describe(self) -> EngineInfo:
        """Sizes and limits of `inner`."""
        return self.inner.describe()

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of `inner`, in this process."""
        return self.inner.tokenizer()

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Start the child and its engine.

        Raises EngineFailure with the child's last output when it does not come up, and InvalidInput
        when the engine refuses its settings.
        """
        directory = private_directory()
        channel = Channel(f"ipc://{directory}/socket")
        threads = dict.fromkeys(_THREAD_VARIABLES, str(len(setup.cpus))) if setup.cpus else {}
        try:
            hello = self.hello(setup, channel.address)
            child = await Child.start("seer.engines.worker", directory, hello, threads)
        except SeerError:
            channel.close()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return await self.engine_in(child, channel, setup.instance_id)

    def hello(self, setup: InstanceSetup, address: str) -> bytes:
        """What the hosting process is told first: to host `inner`, and to report to `address`.

        Raises InvalidInput when it could not import the class of `inner`.
        """
        return msgspec.json.encode(
            messages.Hello(
                address=address,
                spec_class=_class_name(self.inner),
                spec=msgspec.Raw(msgspec.json.encode(self.inner)),
                setup=setup,
                heartbeat_s=self._heartbeat_s,
            )
        )

    async def engine_in(self, host: HostProcess, channel: Channel, instance_id: int) -> Engine:
        """The engine in a process that has got its hello, once it is up; takes both over.

        Raises EngineFailure or InvalidInput, with the process ended, when it does not come up.
        """
        engine = ProcessEngine(host, channel, instance_id, self._heartbeat_s, _HEARTBEATS_PER_LIMIT)
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(engine.close)
            await engine.ready(self.launch_limit_s)
            on_failure.pop_all()
        return engine

    @property
    def _heartbeat_s(self) -> float:
        return self.heartbeat_limit_s / _HEARTBEATS_PER_LIMIT


def _class_name(spec: EngineSpec) -> str:
    """`module:QualifiedName`. Raises InvalidInput when a child could not import it."""
    cls = type(spec)
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        name = f"{cls.__module__}.{cls.__qualname__}"
        raise InvalidInput("inner", name, "allowed: a class that another process can import")
    return f"{cls.__module__}:{cls.__qualname__}"
