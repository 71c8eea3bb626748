"""Instances that are lost in the course of a training run come back with the weights of the day."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from seer.engines.local.spec import LocalSpec
from seer.engines.process import ProcessSpec
from seer.engines.process_engine import ProcessEngine
from seer.engines.scripted import ScriptedSpec
from seer.kvpool.pool import PoolConfig
from seer.rollout.config import RolloutConfig
from seer.rollout.engine import Engine, InstanceSetup, Tokenizer
from seer.rollout.fleet import Fleet
from seer.rollout.results import GroupResult
from seer.rollout.rollout import Rollout
from seer.rollout.sync import SyncRollout
from seer.trainers.trl import SeerRollout
from seer.types import EngineInfo, SamplingParams, WeightUpdate
from support.fake_trainer import FakeTrainer
from support.tiny_tokenizer import make_tiny_model_directory

POOL = PoolConfig(host_bytes=2**20)
SAMPLING = SamplingParams(max_tokens=16)


def kill(rollout: Rollout, instance_id: int) -> None:
    engine = rollout._fleet.placed[instance_id].engine
    assert isinstance(engine, ProcessEngine)
    os.kill(engine.pid, signal.SIGKILL)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_instance_lost_in_a_rollout_comes_back_with_the_current_weights(tmp_path: Path) -> None:
    """It is killed at the second version; the next rollout at that version uses it, on-policy."""
    trainer = FakeTrainer(make_tiny_model_directory(tmp_path / "model"))
    spec = LocalSpec(model=str(tmp_path / "model"), dtype="float32", kv_tokens=2048)
    config = RolloutConfig(engine=ProcessSpec(inner=spec), chunk_size=4, pool=POOL)
    kills = iter([0])

    def kill_once(_: GroupResult) -> None:
        for instance_id in kills:
            kill(session(), instance_id)

    with SeerRollout(config) as rollout:

        def session() -> Rollout:
            assert rollout._session._rollout is not None
            return rollout._session._rollout._rollout

        prompts = ["one"] * 4 + ["two"] * 4 + ["three"] * 4
        rollout(prompts, trainer)
        trainer.step()
        rollout._on_group = kill_once
        rollout(prompts, trainer)
        wait_for(lambda: session()._fleet.num_alive == 2 and session().metrics().instances_lost > 0)
        rollout(prompts, trainer)
        assert rollout.iteration is not None
        assert rollout.iteration.weight_version == 2
        assert session().metrics().instances_lost == 1
        assert trainer.logged["seer/logprob_difference/max"] <= 1e-4


def test_an_instance_lost_between_rollouts_does_not_end_the_run(tmp_path: Path) -> None:
    """Killed while the trainer trains: the others get the new weights, and it is restarted."""
    spec = ProcessSpec(inner=ScriptedSpec(max_length=16))
    with SyncRollout(RolloutConfig(engine=spec, pool=POOL)) as rollout:
        kill(rollout._rollout, 0)
        time.sleep(0.2)  # the process is gone by then
        rollout.update_weights(WeightUpdate(version=1, path=str(tmp_path)))
        groups = rollout.generate(["one", "two"], group_size=4, sampling=SAMPLING)
        assert len(groups) == 2


class SlowEngine:
    """Knows its version of the weights; takes new ones when it is let."""

    def __init__(self, gate: asyncio.Event) -> None:
        self._gate = gate
        self.version = 0

    async def update_weights(self, update: WeightUpdate) -> None:
        await self._gate.wait()
        self.version = update.version


class SlowSpec:
    """Launches SlowEngines."""

    def __init__(self, gate: asyncio.Event) -> None:
        self._gate = gate

    def describe(self) -> EngineInfo:
        return ScriptedSpec().describe()

    def tokenizer(self) -> Tokenizer:
        return ScriptedSpec().tokenizer()

    async def launch(self, setup: InstanceSetup) -> Engine:  # noqa: ARG002
        return SlowEngine(self._gate)  # type: ignore[return-value]


def test_an_instance_on_its_way_back_gets_weights_that_come_meanwhile() -> None:
    """The update overtakes the restart: the instance must not serve the version before."""

    async def run() -> int:
        gate = asyncio.Event()
        gate.set()
        setups = [InstanceSetup(instance_id=i) for i in range(2)]
        fleet = Fleet(SlowSpec(gate), setups, ScriptedSpec().describe())
        await fleet.launch_all()
        await fleet.update_weights(WeightUpdate(version=1, path="old"))
        fleet.lose(0)
        gate.clear()
        back = asyncio.create_task(fleet.relaunch(0))
        await asyncio.sleep(0)
        update = asyncio.create_task(fleet.update_weights(WeightUpdate(version=2, path="new")))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(back, update)
        engine = fleet.placed[0].engine
        assert isinstance(engine, SlowEngine)
        return engine.version

    assert asyncio.run(run()) == 2
