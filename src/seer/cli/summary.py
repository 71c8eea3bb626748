"""What a rollout came to: summary.json, and the closing lines on the terminal."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from seer.cli.completions import Completion, encode_json
from seer.cli.machine import Machine, current_commit, installed_version, this_machine
from seer.cli.settings import RolloutSettings
from seer.rollout.metrics import RolloutMetrics


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Content of summary.json."""

    num_completions: int
    output_tokens: int
    """Of all completions, earlier sessions' included."""
    finish_reasons: dict[str, int]
    num_resumed_groups: int
    """Groups that came from the journal of earlier sessions."""
    metrics: RolloutMetrics | None
    """Of this session; None when nothing was left to generate."""
    settings: dict[str, object]
    machine: Machine
    version: str
    commit: str


def write_summary(
    directory: Path,
    settings: RolloutSettings,
    metrics: RolloutMetrics | None,
    completions: Sequence[Completion],
    num_resumed: int,
) -> None:
    """Write summary.json."""
    summary = Summary(
        num_completions=len(completions),
        output_tokens=_num_tokens(completions),
        finish_reasons=dict(Counter(row.finish_reason for row in completions)),
        num_resumed_groups=num_resumed,
        metrics=metrics,
        settings=msgspec.structs.asdict(settings),
        machine=this_machine(),
        version=installed_version(),
        commit=current_commit(),
    )
    (directory / "summary.json").write_bytes(msgspec.json.format(encode_json(summary)) + b"\n")


def closing_lines(
    settings: RolloutSettings,
    metrics: RolloutMetrics | None,
    completions: Sequence[Completion],
    results: Path,
) -> list[str]:
    """What was made, how fast, and what to try next."""
    prompts = len({row.prompt_id for row in completions})
    made = f"{len(completions)} responses to {prompts} prompts, {_num_tokens(completions)} tokens"
    return [
        f"made: {made}, in {results} (trace and summary.json beside it)",
        f"speed: {_speed(metrics)}",
        f"try next: seer bench --prompts {settings.prompts} --policies group_round_robin,divided",
    ]


def _speed(metrics: RolloutMetrics | None) -> str:
    if metrics is None:
        return "nothing was left to generate"
    speed = (
        f"{metrics.throughput_tokens_per_s:.0f} tokens/s for {metrics.total_time_s:.1f} s, "
        f"tail {metrics.tail_time_s:.1f} s, {metrics.mean_running:.1f} requests at once, "
        f"{metrics.preemptions} preemptions, {metrics.reprefilled_tokens} tokens re-prefilled, "
        f"{metrics.kv_bytes_moved / 1e6:.0f} MB of KV moved"
    )
    if not metrics.drafted_tokens:
        return speed
    share = metrics.accepted_tokens / metrics.drafted_tokens
    return (
        f"{speed}; {metrics.acceptance_length:.2f} tokens a step, {share:.0%} of "
        f"{metrics.drafted_tokens} drafted tokens accepted, drafting "
        f"{metrics.draft_time_share:.1%} of step time"
    )


def _num_tokens(completions: Sequence[Completion]) -> int:
    return sum(len(row.output_token_ids) for row in completions)
