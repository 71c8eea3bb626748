"""Which model a command runs: the directory named, or the default one, prepared when needed."""

import os
from pathlib import Path

from seer.cli.messages import tell
from seer.engines.local.default_model import default_model_dir

CACHE_VARIABLE = "SEER_CACHE"


def model_dir(named: str | None) -> str:
    """The directory the user named, or the default model's."""
    return named or str(prepare_default_model())


def prepare_default_model() -> Path:
    """The default model's directory; every step of its preparation is told on stderr."""
    cache = os.environ.get(CACHE_VARIABLE)
    return default_model_dir(Path(cache) if cache else None, tell)
