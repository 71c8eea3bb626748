"""`seer profile`: measure the local engine's steps here and fit the cost model to them."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from seer.cli.machine import this_machine
from seer.cli.model import model_dir
from seer.cli.profile_measure import Timer, measure
from seer.cli.profile_plan import ProfilePlan
from seer.cli.profile_report import closing_lines, coefficients_table, steps_table
from seer.costmodel.profile_file import write_profile
from seer.engines.local.spec import LocalSpec
from seer.errors import EngineFailure, InvalidInput
from seer.types import EngineInfo

MAX_MEMORY_SHARE = 0.5
"""Of the machine's memory, for the KV that is read while measuring."""


def profile(
    *,
    model: Annotated[str | None, typer.Option(help="model directory (default: SmolLM2)")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32")] = "bfloat16",
    threads: Annotated[str, typer.Option(help="threads of one instance", metavar="N")] = "1",
    batches: Annotated[str, typer.Option(help="requests a step, by commas")] = "1,2,4,8,16,32",
    contexts: Annotated[str, typer.Option(help="KV tokens a request, by commas")] = "64,512,1536",
    widths: Annotated[str, typer.Option(help="tokens fed a request, by commas")] = "1,2,4,8",
    repeats: Annotated[
        str, typer.Option(help="runs of each step; the fastest counts", metavar="N")
    ] = "5",
    out: Annotated[str, typer.Option(help="file for the profile (JSON)")] = "profile.json",
) -> None:
    """Measure the local engine's steps and fit the cost model to them."""
    plan = ProfilePlan(
        batches=_numbers("batches", batches),
        contexts=_numbers("contexts", contexts),
        widths=_numbers("widths", widths),
        threads=_number("threads", threads),
        repeats=_number("repeats", repeats),
    )
    path = Path(out)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput("out", out, "allowed: a file in an existing directory")
    spec = LocalSpec(model=model or "", dtype=dtype, kv_tokens=plan.kv_tokens)
    spec = msgspec.structs.replace(spec, model=model_dir(model))
    _check_fits(plan, spec.describe())
    profile_to(path, plan, spec, _load_timer(spec, plan))


def profile_to(path: Path, plan: ProfilePlan, spec: LocalSpec, timer: Timer) -> None:
    """Measure, fit, write the file and print the report."""
    result = measure(plan, spec, timer)
    write_profile(path, result)
    console = Console()
    console.print(steps_table(result, plan))
    console.print(coefficients_table(result))
    for line in closing_lines(result, str(path)):
        typer.echo(line)


def _numbers(field: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidInput(field, text, "allowed: whole numbers by commas") from error


def _number(field: str, text: str) -> int:
    """A flag's text; parsed here so that the message names the flag."""
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInput(field, text, "allowed: a whole number") from error


def _check_fits(plan: ProfilePlan, info: EngineInfo) -> None:
    if plan.max_length > info.max_context_tokens:
        raise InvalidInput(
            "contexts",
            max(plan.contexts),
            f"allowed: {plan.max_length} tokens of the longest request within the model's context "
            f"of {info.max_context_tokens}",
        )
    needed, there = info.num_blocks * info.block_bytes, this_machine().memory_bytes
    if needed > there * MAX_MEMORY_SHARE:
        raise InvalidInput(
            "batches",
            max(plan.batches),
            f"allowed: batch x context whose KV, now {needed / 2**30:.1f} GiB, takes at most half "
            f"of the machine's {there / 2**30:.1f} GiB",
        )


def _load_timer(spec: LocalSpec, plan: ProfilePlan) -> Timer:
    try:
        from seer.engines.local.step_timer import StepTimer  # noqa: PLC0415 - heavy, optional
    except ImportError as error:
        raise EngineFailure(
            f"the local engine cannot be loaded ({error}): pip install 'seer-rl[local]'"
        ) from error
    return StepTimer.load(spec.model, spec.dtype, plan.threads, plan.kv_tokens)
