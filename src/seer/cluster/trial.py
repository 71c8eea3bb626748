"""A cluster of this one machine, to try things on: a Ray, and a Mooncake store if asked for.

A keeper process (`python -m seer.cluster.trial`) holds both until it is told to end, so that
`seer cluster up` and `down` are commands of their own. Its state is a file of the user's cache.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from seer.cluster.ray_cluster import require_ray
from seer.errors import EngineFailure, InvalidInput, SeerError
from seer.kvpool.mooncake.master import MooncakeServer
from seer.subprocesses import child_command, child_environment

_START_LIMIT_S = 120.0
_END_LIMIT_S = 30.0
_POLL_S = 0.1
_OBJECT_STORE_BYTES = 80 * 2**20


class TrialCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A trial cluster that runs."""

    pid: int
    """Of the keeper."""
    ray_address: str
    pool_url: str | None = None
    """For `--pool`, with a Mooncake store."""

    @property
    def is_alive(self) -> bool:
        """Whether its keeper runs."""
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return False
        return b"seer.cluster.trial" in command


class _Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What the keeper is told, as JSON in its argument."""

    cpus: int | None
    mooncake_bytes: int


def up(*, cpus: int | None = None, mooncake_bytes: int = 0) -> TrialCluster:
    """Start a trial cluster, and wait until it is there.

    `cpus` are what Ray believes in (None: what the machine has), `mooncake_bytes` is memory for a
    Mooncake store (0: none). Raises InvalidInput when one runs already or something is not
    installed, EngineFailure with the keeper's last output when it does not come up.
    """
    require_ray()
    running = status()
    if running is not None:
        allowed = f"one runs already ({running.ray_address}); `seer cluster down` ends it"
        raise InvalidInput("cluster", "up", allowed)
    directory = _directory()
    directory.mkdir(parents=True, exist_ok=True)
    wish = _Wish(cpus=cpus, mooncake_bytes=mooncake_bytes)
    log = directory / "output"
    with log.open("wb") as output:
        keeper = subprocess.Popen(  # noqa: S603 - a module of ours
            [*child_command("seer.cluster.trial"), msgspec.json.encode(wish).decode()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=child_environment(),
            start_new_session=True,
        )
    give_up = time.monotonic() + _START_LIMIT_S
    while keeper.poll() is None and time.monotonic() < give_up:
        running = status()
        if running is not None and running.pid == keeper.pid:
            return running
        time.sleep(_POLL_S)
    keeper.kill()
    raise EngineFailure(f"the cluster did not come up: {log.read_text(errors='replace')[-1500:]}")


def down() -> bool:
    """End the trial cluster; False when none runs. Raises EngineFailure if it does not end."""
    running = status()
    if running is None:
        return False
    os.kill(running.pid, signal.SIGTERM)
    give_up = time.monotonic() + _END_LIMIT_S
    while running.is_alive:
        if time.monotonic() > give_up:
            raise EngineFailure(f"the keeper (process {running.pid}) does not end")
        time.sleep(_POLL_S)
    return True


def status() -> TrialCluster | None:
    """The trial cluster that runs; None: none."""
    try:
        state = msgspec.json.decode(_state_file().read_bytes(), type=TrialCluster)
    except (OSError, msgspec.DecodeError):
        return None
    return state if state.is_alive else None


def _keep(wish: _Wish) -> None:
    """The keeper: start all, say so, wait for SIGTERM, end all."""
    import ray  # noqa: PLC0415 - an extra

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    mooncake = MooncakeServer.start(wish.mooncake_bytes) if wish.mooncake_bytes else None
    try:
        context = ray.init(
            num_cpus=wish.cpus,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=_OBJECT_STORE_BYTES,
        )
        state = TrialCluster(
            pid=os.getpid(),
            ray_address=context.address_info["gcs_address"],
            pool_url=mooncake.url if mooncake else None,
        )
        unfinished = _state_file().with_suffix(".tmp")
        unfinished.write_bytes(msgspec.json.encode(state))
        unfinished.rename(_state_file())
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray has set its own
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        _state_file().unlink(missing_ok=True)
        ray.shutdown()
        if mooncake is not None:
            mooncake.close()


def _directory() -> Path:
    return Path.home() / ".cache" / "seer" / "trial-cluster"


def _state_file() -> Path:
    return _directory() / "state.json"


if __name__ == "__main__":
    try:
        _keep(msgspec.json.decode(sys.argv[1], type=_Wish))
    except SeerError as error:
        sys.exit(str(error))
