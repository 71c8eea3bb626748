"""Import every module outside the local engine; fail if one brings in an engine's libraries."""

import importlib
import pkgutil
import sys

import seer

HEAVY = ("torch", "transformers", "reasoning_gym", "vllm", "ray")
ENGINE = "seer.engines.local."


def main() -> int:
    """Print what was imported; 1 when a heavy library came along."""
    names = [
        module.name
        for module in pkgutil.walk_packages(seer.__path__, "seer.")
        if not module.name.startswith(ENGINE)
    ]
    for name in names:
        importlib.import_module(name)
    heavy = [name for name in HEAVY if name in sys.modules]
    print(f"{len(names)} modules imported; heavy libraries among them: {heavy or 'none'}")
    return 1 if heavy else 0


if __name__ == "__main__":
    sys.exit(main())
