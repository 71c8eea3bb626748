"""slime's dynamic sampling filter: what it says of a group, and the count of what it drops."""

from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass
class DynamicFilterOutput:
    keep: bool
    reason: str | None = None


def call_dynamic_filter(fn: Any, *args: Any) -> DynamicFilterOutput:
    """Its verdict; without a filter everything is kept."""
    if fn is None:
        return DynamicFilterOutput(keep=True)
    output = fn(*args)
    return output if isinstance(output, DynamicFilterOutput) else DynamicFilterOutput(keep=output)


class MetricGatherer:
    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()

    def on_dynamic_filter_drop(self, reason: str | None) -> None:
        if reason:
            self._reasons[reason] += 1

    def collect(self) -> dict[str, int]:
        return {f"rollout/dynamic_filter/drop_{name}": n for name, n in self._reasons.items()}
