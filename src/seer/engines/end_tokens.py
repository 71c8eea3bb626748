"""The end tokens of a model directory, read from its JSON files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def eos_token_ids(config: Mapping[str, Any], directory: Path) -> tuple[int, ...]:
    """End tokens: generation_config.json's where there is one (chat models add theirs there)."""
    value = config.get("eos_token_id")
    generation = directory / "generation_config.json"
    if generation.is_file():
        value = json.loads(generation.read_text()).get("eos_token_id", value)
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (int(value),)
