"""slime runs a rollout's coroutine from plain code."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Its result."""
    return asyncio.run(coroutine)
