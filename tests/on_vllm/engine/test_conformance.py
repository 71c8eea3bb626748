"""A vLLM instance in a process of its own keeps the contract of engines, as far as vLLM can."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("vllm")

from seer.engines.process import ProcessSpec
from seer.engines.vllm.spec import VllmSpec
from seer.rollout.engine import Engine, InstanceSetup
from seer.types import WeightUpdate
from support.conformance import (
    CHECKS_OF_CACHES,
    Check,
    check_close,
    check_update_weights,
    run_check,
)
from support.shared_engine import SharedSpec
from support.subjects import Subject

CHECKS = (*(check for check in CHECKS_OF_CACHES if check is not check_close), check_close)
"""The last one leaves no engine to others."""


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine(tiny_model: Path, runner: asyncio.Runner) -> Iterator[Engine]:
    """One engine for the module: it takes half a minute to start."""
    engine = runner.run(_spec(tiny_model).launch(InstanceSetup(instance_id=0)))
    yield engine
    runner.run(engine.close())


class _Closing(SharedSpec):
    """Hands out the engine itself."""

    async def launch(self, setup: InstanceSetup) -> Engine:
        del setup
        return self._engine


def _spec(model: Path) -> ProcessSpec:
    return ProcessSpec(inner=VllmSpec(model=str(model), dtype="float32", kv_tokens=16 * 32))


def _subject(model: Path, spec: SharedSpec) -> Subject:
    return Subject(spec=spec, weights_path=str(model), keyed_draws=False, kv_objects=False)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(
    check: Check, engine: Engine, tiny_model: Path, runner: asyncio.Runner
) -> None:
    """The checks that an engine can pass whose draws and KV cache are its own."""
    kind = _Closing if check is check_close else SharedSpec
    run_check(check, _subject(tiny_model, kind(_spec(tiny_model), engine)), runner)
    if check is check_update_weights:
        runner.run(engine.update_weights(WeightUpdate(version=0, path=str(tiny_model))))
