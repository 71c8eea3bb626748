"""The result of a comparison: one row a policy and repeat, and the table made of them."""

from collections.abc import Callable, Sequence
from statistics import fmean

import msgspec
from rich.table import Table

from seer.cli.machine import Machine


class BenchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout of one policy."""

    policy: str
    repeat: int
    throughput_tokens_per_s: float
    total_time_s: float
    tail_time_s: float
    output_tokens: int
    preemptions: int
    reprefilled_tokens: int
    kv_bytes_moved: int
    mean_running: float
    ratio_to_first: float
    """Throughput over that of the first policy in the same repeat."""
    differing_requests: int
    """Responses that are not those of the very first rollout."""
    seed: int
    commit: str
    machine: Machine
    config: dict[str, object]


def bench_table(rows: Sequence[BenchRow]) -> Table:
    """Mean and range over the repeats, a line a policy, in the order measured."""
    table = Table(title="mean (min to max over the repeats)", title_justify="left")
    table.add_column("policy")
    for name, _ in COLUMNS:
        table.add_column(name, justify="right")
    for policy in dict.fromkeys(row.policy for row in rows):
        own = [row for row in rows if row.policy == policy]
        table.add_row(policy, *(spread([value(row) for row in own]) for _, value in COLUMNS))
    return table


def spread(values: Sequence[float]) -> str:
    """`mean (min to max)`, or the one value where all are equal."""
    if min(values) == max(values):
        return _short(values[0])
    return f"{_short(fmean(values))} ({_short(min(values))} to {_short(max(values))})"


def difference_note(rows: Sequence[BenchRow], num_requests: int) -> str:
    """What the comparison of the texts came to, in one line."""
    worst = max(row.differing_requests for row in rows)
    if worst == 0:
        return f"all rollouts gave the same {num_requests} responses, token for token"
    return (
        f"up to {worst} of {num_requests} responses differ from the first rollout's "
        "(expected in bfloat16, where rounding depends on the batch; not in float32)"
    )


COLUMNS: tuple[tuple[str, Callable[[BenchRow], float]], ...] = (
    ("tokens/s", lambda row: row.throughput_tokens_per_s),
    ("ratio", lambda row: row.ratio_to_first),
    ("total s", lambda row: row.total_time_s),
    ("tail s", lambda row: row.tail_time_s),
    ("preemptions", lambda row: row.preemptions),
    ("re-prefilled", lambda row: row.reprefilled_tokens),
    ("KV moved MB", lambda row: row.kv_bytes_moved / 1e6),
    ("running", lambda row: row.mean_running),
)


def _short(value: float) -> str:
    """Three or so significant digits: enough for numbers that vary by percents."""
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004 - digits shown
        return f"{value:.0f}"
    return f"{value:.3g}"
