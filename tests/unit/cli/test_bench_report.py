"""The table of a comparison."""

import io

import msgspec
from rich.console import Console

from seer.cli.bench_report import BenchRow, bench_table, difference_note, spread
from seer.cli.machine import this_machine

ROW = BenchRow(
    policy="divided",
    drafting="off",
    repeat=0,
    throughput_tokens_per_s=150.0,
    total_time_s=10.0,
    tail_time_s=2.0,
    output_tokens=1500,
    preemptions=0,
    reprefilled_tokens=0,
    kv_bytes_moved=2_000_000,
    mean_running=12.5,
    acceptance_length=1.0,
    drafted_tokens=0,
    accepted_tokens=0,
    acceptance_by_position=(),
    draft_time_share=0.0,
    ratio_to_first=1.5,
    differing_requests=0,
    seed=0,
    commit="abc",
    machine=this_machine(),
    config={},
)


def test_spread_is_mean_and_range() -> None:
    """Equal values are written once, others with their range."""
    assert spread([2.0, 2.0]) == "2"
    assert spread([1.0, 2.0]) == "1.50 (1-2)"
    assert spread([1234.4, 1235.4]) == "1235 (1234-1235)"


def test_table_has_a_column_a_policy_in_the_order_measured() -> None:
    """The first policy, the baseline, comes first."""
    first = msgspec.structs.replace(ROW, policy="group_round_robin", ratio_to_first=1.0)
    output = io.StringIO()
    Console(file=output, width=120).print(bench_table([first, ROW, first, ROW]))
    text = output.getvalue()
    assert text.index("group_round_robin") < text.index("divided")
    assert "1.50" in text


def test_table_has_a_column_for_each_kind_of_drafting() -> None:
    """One policy with and without drafts is two columns."""
    drafted = msgspec.structs.replace(ROW, drafting="fixed:4", acceptance_length=2.25)
    output = io.StringIO()
    Console(file=output, width=120).print(bench_table([ROW, drafted]))
    text = output.getvalue()
    assert text.index("divided, off") < text.index("divided, fixed:4")
    assert "2.25" in text


def test_difference_note_counts_the_worst_rollout() -> None:
    """Equal texts are said to be equal; others are counted."""
    assert "same 8 responses" in difference_note([ROW], 8)
    other = msgspec.structs.replace(ROW, differing_requests=3)
    assert "up to 3 of 8" in difference_note([ROW, other], 8)


def test_this_machine_is_named() -> None:
    """A number without its machine would say nothing."""
    machine = this_machine()
    assert machine.cpu
    assert machine.cores >= 1
    assert machine.memory_bytes > 1 << 20
