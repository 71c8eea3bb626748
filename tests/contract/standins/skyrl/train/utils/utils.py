"""SkyRL's start of Ray."""

from typing import Any


def initialize_ray(cfg: Any) -> None:
    """Nothing is started."""
    del cfg
