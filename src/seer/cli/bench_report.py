"""The result of a comparison: one row a policy and repeat, and the table made of them."""

from collections.abc import Callable, Sequence
from statistics import fmean

import msgspec
from rich.box import MARKDOWN
from rich.table import Table

from seer.cli.faithful import VLLM
from seer.cli.machine import Machine


class BenchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout of one policy."""

    policy: str
    drafting: str
    repeat: int
    throughput_tokens_per_s: float
    total_time_s: float
    tail_time_s: float
    output_tokens: int
    preemptions: int
    reprefilled_tokens: int
    kv_bytes_moved: int
    mean_running: float
    acceptance_length: float
    """Tokens a request gained by a decode step, bonus token included."""
    drafted_tokens: int
    accepted_tokens: int
    acceptance_by_position: tuple[float, ...]
    """Of the drafts that reached the first, second, ... place, the share accepted up to it."""
    draft_time_share: float
    """Part of the instances' step time that went into drafting."""
    ratio_to_first: float
    """Throughput over that of the first policy and drafting in the same repeat."""
    differing_requests: int
    """Responses that are not those of the very first rollout."""
    seed: int
    commit: str
    machine: Machine
    config: dict[str, object]


def bench_table(rows: Sequence[BenchRow]) -> Table:
    """Mean and range over the repeats, a column a policy, in the order measured; in Markdown.

    Policies run with several kinds of drafting have a column for each.
    """
    table = Table(box=MARKDOWN)
    table.add_column("mean (range)")
    columns: dict[tuple[str, str], list[BenchRow]] = {}
    for row in rows:
        columns.setdefault((row.policy, row.drafting), []).append(row)
    is_one_drafting = len({row.drafting for row in rows}) == 1
    for policy, drafting in columns:
        title = policy if is_one_drafting else f"{policy}, {drafting}"
        table.add_column(title, justify="right")
    for name, value in MEASURES:
        cells = [[value(row) for row in column] for column in columns.values()]
        table.add_row(name, *map(spread, cells))
    return table


def spread(values: Sequence[float]) -> str:
    """`mean (min-max)`, or the one value where all are equal."""
    if min(values) == max(values):
        return _short(values[0])
    return f"{_short(fmean(values))} ({_short(min(values))}-{_short(max(values))})"


def difference_note(rows: Sequence[BenchRow], num_requests: int) -> str:
    """What the comparison of the texts came to, in one line."""
    worst = max(row.differing_requests for row in rows)
    if worst == 0:
        return f"all rollouts gave the same {num_requests} responses, token for token"
    why = "expected in bfloat16, where rounding depends on the batch; not in float32"
    if any(row.config.get("engine") == VLLM for row in rows):
        why = "expected with vLLM, whose draws depend on how a response is divided"
    return f"up to {worst} of {num_requests} responses differ from the first rollout's ({why})"


MEASURES: tuple[tuple[str, Callable[[BenchRow], float]], ...] = (
    ("tokens/s", lambda row: row.throughput_tokens_per_s),
    ("ratio to the first", lambda row: row.ratio_to_first),
    ("total s", lambda row: row.total_time_s),
    ("tail s", lambda row: row.tail_time_s),
    ("preemptions", lambda row: row.preemptions),
    ("tokens re-prefilled", lambda row: row.reprefilled_tokens),
    ("KV moved MB", lambda row: row.kv_bytes_moved / 1e6),
    ("chunks in flight", lambda row: row.mean_running),
    ("tokens a step", lambda row: row.acceptance_length),
    ("drafting, % of step time", lambda row: 100 * row.draft_time_share),
)


def _short(value: float) -> str:
    """As many decimals as tell values apart that vary by percents."""
    if value == int(value) or abs(value) >= 100:  # noqa: PLR2004 - digits shown
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"  # noqa: PLR2004 - likewise
