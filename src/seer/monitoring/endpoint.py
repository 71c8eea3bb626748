"""The page that Prometheus reads: the state of the session that was shown last."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from seer.errors import InvalidInput
from seer.monitoring.figures import INSTANCE, Figure, Kind, figures_of
from seer.rollout.results import RolloutProgress

if TYPE_CHECKING:
    from prometheus_client.core import Metric

INSTALL = "pip install 'seer-rl[metrics]'"


class MetricsPage:
    """Collects what `show` was last given; the empty page before."""

    def __init__(self) -> None:
        self._progress: RolloutProgress | None = None

    def show(self, progress: RolloutProgress) -> None:
        """Take a new state: an `on_progress` callback. Cheap; nothing is computed before a read."""
        self._progress = progress

    def collect(self) -> "Iterator[Metric]":
        """The figures, as prometheus_client wants them from a collector."""
        if self._progress is not None:
            for figure in figures_of(self._progress):
                yield _metric(figure)

    @classmethod
    @contextmanager
    def served(cls, host: str, port: int) -> Iterator[Self]:
        """A page at `http://host:port/metrics` for as long as the context lasts.

        Raises InvalidInput without prometheus-client, and for a port that cannot be listened on.
        """
        if importlib.util.find_spec("prometheus_client") is None:
            raise InvalidInput("metrics_port", port, f"prometheus-client is missing: {INSTALL}")
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 - extra

        page = cls()
        registry = CollectorRegistry()
        registry.register(page)
        try:
            server, thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            allowed = f"allowed: a free port of {host} ({error})"
            raise InvalidInput("metrics_port", port, allowed) from error
        try:
            yield page
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _metric(figure: Figure) -> "Metric":
    from prometheus_client.core import (  # noqa: PLC0415 - an extra
        CounterMetricFamily,
        GaugeMetricFamily,
    )

    family = CounterMetricFamily if figure.kind is Kind.COUNTER else GaugeMetricFamily
    labels = [] if "" in figure.values else [INSTANCE]
    metric: CounterMetricFamily | GaugeMetricFamily
    metric = family(figure.name, figure.about, labels=labels)
    for label, value in figure.values.items():
        metric.add_metric([label] if label else [], value)
    return metric
