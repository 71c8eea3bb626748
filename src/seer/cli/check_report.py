"""What `seer check` prints."""

from collections.abc import Iterator

from rich.box import MARKDOWN
from rich.table import Table

from seer.engines.fidelity.arms import CheckPlan
from seer.engines.fidelity.report import ArmReport, CheckReport


def arms_table(report: CheckReport, plan: CheckPlan) -> Table:
    """One column an arm."""
    title = f"temperature {plan.sampling.temperature:g}, {plan.num_seeds} seeds"
    table = Table(box=MARKDOWN, title=title)
    table.add_column("", no_wrap=True)
    for arm in report.arms:
        table.add_column(arm.arm, justify="right", no_wrap=True)
    rows = [list(_cells(arm)) for arm in report.arms]
    for cells in zip(*rows, strict=True):
        table.add_row(cells[0][0], *(value for _, value in cells))
    return table


def closing_lines(report: CheckReport) -> Iterator[str]:
    """What failed, and the verdict."""
    for arm in report.arms:
        for failure in arm.failures:
            yield f"{arm.arm}: {failure}"
    word = "passed" if report.passed else "failed"
    yield (
        f"{word}: a right engine fails with a probability of at most {report.false_alarm:g} "
        f"(every p-value is held against {report.least_p:.2g})"
    )


def _cells(arm: ArmReport) -> Iterator[tuple[str, str]]:
    yield "tokens", f"{arm.num_tokens:,}"
    yield "guesses verified, accepted", f"{arm.num_drafted:,}, {arm.num_accepted:,}"
    yield "moves between instances", f"{arm.num_moves:,}"
    yield "drawn as at temperature", f"{arm.temperature:.4f} ± {arm.temperature_error:.4f}"
    yield "p, temperature", f"{arm.sharpness_p:.3g}"
    yield "p, ranks", f"{arm.ranks_p:.3g}"
    yield "p, independence", f"{arm.independence_p:.3g}"
    yield "p, over seeds", f"{arm.seeds_p:.3g}"
    ordered = sorted(seed.ranks_p for seed in arm.seeds)
    middle = ordered[len(ordered) // 2]
    yield "p of a seed, least, median", f"{ordered[0]:.3g}, {middle:.3g}"
    yield "tokens that filters exclude", f"{arm.num_excluded:,}"
    yield "log-probability off, mean, most", f"{arm.mean_gap:.2g}, {arm.largest_gap:.2g}"
