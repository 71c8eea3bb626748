"""Specs of engines that never come up, for child processes to import."""

import os
import sys

import msgspec

from seer.engines.scripted import ScriptedSpec
from seer.errors import InvalidInput
from seer.rollout.engine import Engine, InstanceSetup, Tokenizer
from seer.types import EngineInfo


class CrashingSpec(msgspec.Struct, frozen=True):
    """Its launch ends the process."""

    def describe(self) -> EngineInfo:
        """Sizes of no consequence."""
        return ScriptedSpec().describe()

    def tokenizer(self) -> Tokenizer:
        """Any tokenizer."""
        return ScriptedSpec().tokenizer()

    async def launch(self, setup: InstanceSetup) -> Engine:
        """End the process with exit code 3."""
        sys.stderr.write(f"instance {setup.instance_id} is about to crash\n")
        sys.stderr.flush()
        os._exit(3)


class RefusingSpec(CrashingSpec, frozen=True):
    """Its launch refuses a setting."""

    async def launch(self, setup: InstanceSetup) -> Engine:
        """Raise InvalidInput."""
        raise InvalidInput("size", 7, f"allowed: 8 on instance {setup.instance_id}")
