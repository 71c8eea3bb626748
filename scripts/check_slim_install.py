"""Import every module that needs no extra; fail if one brings in an engine's libraries."""

import importlib
import pkgutil
import sys

import seer

HEAVY = ("torch", "transformers", "trl", "datasets", "reasoning_gym", "vllm", "ray")
WITH_EXTRAS = (
    "seer.engines.local.",
    "seer.engines.fidelity.reference",
    "seer.engines.vllm.engine",
    "seer.engines.vllm.kv_connector.block_bytes",
    "seer.engines.vllm.kv_connector.connector",
    "seer.engines.vllm.load_watch",
    "seer.engines.vllm.warm_up",
    "seer.cluster.actors.",
    "seer.trainers.training.grpo",
    "seer.trainers.training.hooks",
    "seer.trainers.training.micro_batches",
    "seer.trainers.slime.rollout",
    "seer.trainers.slime.samples",
    "seer.trainers.slime.servers",
    "seer.trainers.skyrl.entrypoint",
    "seer.trainers.skyrl.experiment",
    "seer.trainers.openrlhf.executor",
    "seer.trainers.verl.",
)
"""The local engine, what runs inside vLLM, and the modules that build on trainers' own classes."""


def main() -> int:
    """Print what was imported; 1 when a heavy library came along."""
    names = [
        module.name
        for module in pkgutil.walk_packages(seer.__path__, "seer.")
        if not module.name.startswith(WITH_EXTRAS)
    ]
    for name in names:
        importlib.import_module(name)
    heavy = [name for name in HEAVY if name in sys.modules]
    print(f"{len(names)} modules imported; heavy libraries among them: {heavy or 'none'}")
    return 1 if heavy else 0


if __name__ == "__main__":
    sys.exit(main())
