"""What `seer profile` prints of a profile."""

from collections.abc import Iterator

from rich.box import MARKDOWN
from rich.table import Table

from seer.cli.profile_plan import ProfilePlan
from seer.costmodel.profile_file import Profile


def steps_table(result: Profile, plan: ProfilePlan) -> Table:
    """Measured milliseconds of each step, with the fitted surface's in brackets."""
    table = Table(box=MARKDOWN, title="milliseconds a step, measured (fitted)")
    table.add_column("batch, context")
    widths = sorted(set(plan.widths))
    for width in widths:
        table.add_column(f"{width} a request", justify="right", no_wrap=True)
    cells = [
        f"{point.seconds * 1e3:.1f} ({result.step_time.step_s(*point.work) * 1e3:.1f})"
        for point in result.points
    ]
    for row in range(0, len(cells), len(widths)):
        batch, context, _ = plan.cases[row]
        table.add_row(f"{batch}, {context}", *cells[row : row + len(widths)])
    return table


def coefficients_table(result: Profile) -> Table:
    """The fitted coefficients in microseconds."""
    table = Table(box=MARKDOWN)
    table.add_column("coefficient")
    table.add_column("microseconds", justify="right")
    for name, seconds in _coefficients(result):
        table.add_row(name, f"{seconds * 1e6:.4g}")
    return table


def closing_lines(result: Profile, out: str) -> Iterator[str]:
    """How well the surface fits, the speed of copies, and where all of it is."""
    errors = result.errors
    yield (
        f"error of the fit: median {errors.median_step:.1%}, largest {errors.max_step:.1%} over "
        f"{len(result.points)} decode steps; median {errors.median_prefill:.1%}, largest "
        f"{errors.max_prefill:.1%} over {len(result.prefill_points)} prefills"
    )
    if result.kv_copy:
        export, load = result.kv_copy.export_bytes_per_s, result.kv_copy.load_bytes_per_s
        yield f"KV copies: {export / 1e9:.2f} GB/s to the pool, {load / 1e9:.2f} GB/s back"
    yield f"profile: {out}"


def _coefficients(result: Profile) -> Iterator[tuple[str, float]]:
    step_time = result.step_time
    for name in step_time.__struct_fields__:
        value = getattr(step_time, name)
        if name == "bends":
            for bend in value:
                yield f"per_token_s above {bend.above_tokens:g} tokens", bend.per_token_s
        elif name != "draft":
            yield name, value
