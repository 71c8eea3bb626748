"""slime finds functions by `module.name`."""

import importlib
from typing import Any


def load_function(path: str) -> Any:
    """The function."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
