"""The page for Prometheus, and the dashboard that reads it."""

import json
import re
import socket
import urllib.request
from pathlib import Path

import pytest

from seer.errors import InvalidInput
from seer.monitoring.figures import Kind, figures_of
from seer.rollout.results import InstanceProgress, RolloutProgress

DASHBOARD = Path(__file__).parents[3] / "examples" / "grafana_dashboard.json"
PROGRESS = RolloutProgress(
    elapsed_s=12.5,
    num_groups=4,
    num_finished_groups=3,
    num_requests=32,
    num_finished_requests=30,
    num_output_tokens=1234,
    tail_s=1.5,
    preemptions=0,
    acceptance_length=1.75,
    drafted_tokens=40,
    accepted_tokens=20,
    kv_bytes_moved=4096,
    instances_lost=1,
    instances=(
        InstanceProgress(
            instance_id=0,
            is_alive=True,
            num_in_flight=2,
            used_kv_tokens=100,
            kv_capacity_tokens=400,
        ),
        InstanceProgress(
            instance_id=3,
            is_alive=False,
            num_in_flight=0,
            used_kv_tokens=0,
            kv_capacity_tokens=400,
        ),
    ),
)


def test_counters_are_named_as_prometheus_names_them() -> None:
    """A counter ends in _total, a gauge does not, no name comes twice."""
    figures = figures_of(PROGRESS)
    assert all((f.kind is Kind.COUNTER) == f.name.endswith("_total") for f in figures)
    assert len({f.name for f in figures}) == len(figures)


def test_every_figure_that_the_dashboard_queries_exists() -> None:
    """And every figure but those of size is shown."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    queried = set(re.findall(r"\bseer_\w+", " ".join(queries)))
    known = {figure.name for figure in figures_of(PROGRESS)}
    assert queried - known == set()
    assert known - queried == {"seer_elapsed_seconds"}


def test_prometheus_reads_what_was_shown_last() -> None:
    """By instance where each has its own; before the first state the page is empty."""
    pytest.importorskip("prometheus_client")
    from seer.monitoring.endpoint import MetricsPage  # noqa: PLC0415 - an extra

    port = _free_port()
    with MetricsPage.served("127.0.0.1", port) as page:
        assert "seer_" not in _read(port)
        page.show(PROGRESS)
        lines = _read(port).splitlines()
    assert "seer_requests_finished_total 30.0" in lines
    assert "seer_kv_moved_bytes_total 4096.0" in lines
    assert 'seer_instance_up{instance="3"} 0.0' in lines
    assert 'seer_instance_kv_used_tokens{instance="0"} 100.0' in lines


def test_a_port_in_use_is_refused() -> None:
    """With its number; a page that is closed gives its port back."""
    pytest.importorskip("prometheus_client")
    from seer.monitoring.endpoint import MetricsPage  # noqa: PLC0415 - an extra

    port = _free_port()
    with (
        MetricsPage.served("127.0.0.1", port),
        pytest.raises(InvalidInput, match=f"metrics_port: got {port}; allowed: a free port"),
        MetricsPage.served("127.0.0.1", port),
    ):
        pass
    with MetricsPage.served("127.0.0.1", port):
        pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text: str = page.read().decode()
        return text
