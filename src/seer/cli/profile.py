"""`seer profile`: measure the local engine's steps here and fit the cost model to them."""

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.progress import track

from seer.cli.machine import installed_version, this_machine
from seer.cli.model import model_dir
from seer.cli.profile_plan import ProfilePlan
from seer.cli.profile_report import closing_lines, coefficients_table, steps_table
from seer.costmodel.points import PrefillPoint, StepPoint
from seer.costmodel.profile_file import (
    KVCopySpeed,
    Profile,
    ProfiledEngine,
    make_profile,
    write_profile,
)
from seer.engines.local.spec import LocalSpec
from seer.errors import EngineFailure, InvalidInput
from seer.types import EngineInfo

CaseT = TypeVar("CaseT")

MAX_MEMORY_SHARE = 0.5
"""Of the machine's memory, for the KV that is read while measuring."""


class Timer(Protocol):
    """What is timed (engines/local/step_timer.py)."""

    def step_s(self, num_requests: int, context: int, width: int, repeats: int) -> float:
        """Seconds of a decode step."""

    def prefill_s(self, num_tokens: int, context: int, repeats: int) -> float:
        """Seconds of a step that only prefills."""

    def kv_copy_bytes_per_s(self, repeats: int) -> tuple[float, float]:
        """Bytes a second to the pool and back."""


def profile(
    *,
    model: Annotated[str | None, typer.Option(help="model directory (default: SmolLM2)")] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32")] = "bfloat16",
    threads: Annotated[int, typer.Option(help="threads of one instance")] = 1,
    batches: Annotated[str, typer.Option(help="requests a step, by commas")] = "1,2,4,8,16,32",
    contexts: Annotated[str, typer.Option(help="KV tokens a request, by commas")] = "64,512,1536",
    widths: Annotated[str, typer.Option(help="tokens fed a request, by commas")] = "1,2,4,8",
    repeats: Annotated[int, typer.Option(help="runs of each step; the fastest counts")] = 5,
    out: Annotated[str, typer.Option(help="file for the profile (JSON)")] = "profile.json",
) -> None:
    """Measure the local engine's steps and fit the cost model to them."""
    plan = ProfilePlan(
        batches=_numbers("batches", batches),
        contexts=_numbers("contexts", contexts),
        widths=_numbers("widths", widths),
        threads=threads,
        repeats=repeats,
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


def measure(plan: ProfilePlan, spec: LocalSpec, timer: Timer) -> Profile:
    """All of the plan's steps, and the fit. Raises InvalidInput when no surface fits them."""
    points = tuple(
        StepPoint(
            num_requests=batch,
            num_tokens=batch * width,
            context_tokens=batch * context,
            seconds=timer.step_s(batch, context, width, plan.repeats),
        )
        for batch, context, width in _tracked(plan.cases, "decode steps")
    )
    prefill_points = tuple(
        PrefillPoint(
            num_tokens=tokens,
            context_tokens=context,
            seconds=timer.prefill_s(tokens, context, plan.repeats),
        )
        for tokens, context in _tracked(plan.prefill_cases, "prefills")
    )
    export_rate, load_rate = timer.kv_copy_bytes_per_s(plan.repeats)
    machine = this_machine()
    engine = ProfiledEngine(
        model=spec.model,
        dtype=spec.dtype,
        device=spec.device,
        threads=plan.threads,
        machine=f"{machine.cpu}, {machine.cores} cores",
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        version=installed_version(),
    )
    speed = KVCopySpeed(export_bytes_per_s=export_rate, load_bytes_per_s=load_rate)
    return make_profile(engine, points, prefill_points, speed)


def _numbers(field: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidInput(field, text, "allowed: whole numbers by commas") from error


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
    return StepTimer(spec.model, spec.dtype, plan.threads, plan.kv_tokens)


def _tracked(cases: Sequence[CaseT], what: str) -> Iterator[CaseT]:
    return iter(track(cases, description=what, console=Console(stderr=True), transient=True))
