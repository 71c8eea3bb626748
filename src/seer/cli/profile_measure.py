"""The measuring behind `seer profile`: rounds over all steps, and the fit."""

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from rich.console import Console
from rich.progress import track

from seer.cli.machine import installed_version, this_machine
from seer.cli.profile_plan import ProfilePlan
from seer.costmodel.measuring import CaseT, fastest, step_points
from seer.costmodel.points import PrefillPoint
from seer.costmodel.profile_file import KVCopySpeed, Profile, ProfiledEngine, make_profile
from seer.engines.local.spec import BLOCK_TOKENS, LocalSpec
from seer.errors import InvalidInput


class Timer(Protocol):
    """What is timed (engines/local/step_timer.py)."""

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of KV that a token takes."""

    def step_s(self, num_requests: int, context: int, width: int) -> float:
        """Seconds of a decode step."""

    def prefill_s(self, num_tokens: int, context: int) -> float:
        """Seconds of a step that only prefills."""

    def kv_copy_bytes_per_s(self) -> tuple[float, float]:
        """Bytes a second to the pool and back."""


def measure(plan: ProfilePlan, spec: LocalSpec, timer: Timer) -> Profile:
    """All of the plan's steps, and the fit. Raises InvalidInput when no surface fits them."""
    steps = _fastest(plan.cases, timer.step_s, plan.repeats, "decode steps")
    prefills = _fastest(plan.prefill_cases, timer.prefill_s, plan.repeats, "prefills")
    points = step_points(plan.cases, steps)
    prefill_points = tuple(
        PrefillPoint(num_tokens=tokens, context_tokens=context, seconds=seconds)
        for (tokens, context), seconds in zip(plan.prefill_cases, prefills, strict=True)
    )
    try:
        return make_profile(
            _engine(plan, spec, timer), points, prefill_points, _copy_speed(timer, plan.repeats)
        )
    except InvalidInput as error:
        advice = "a busy machine gives such times: measure again when it is idle"
        raise InvalidInput(error.field, error.value, f"{error.allowed}; {advice}") from error


def _fastest(
    cases: Sequence[CaseT], time_one: Callable[..., float], repeats: int, what: str
) -> list[float]:
    """The least of `repeats` times of each case, with a bar for each round."""

    def in_round(cases: Sequence[CaseT], index: int) -> Iterator[CaseT]:
        return _tracked(cases, f"{what}, round {index} of {repeats}")

    return fastest(cases, time_one, repeats, in_round)


def _copy_speed(timer: Timer, repeats: int) -> KVCopySpeed:
    speeds = [timer.kv_copy_bytes_per_s() for _ in range(repeats + 1)]
    export_speed, load_speed = (max(each) for each in zip(*speeds, strict=True))
    return KVCopySpeed(export_bytes_per_s=export_speed, load_bytes_per_s=load_speed)


def _engine(plan: ProfilePlan, spec: LocalSpec, timer: Timer) -> ProfiledEngine:
    machine = this_machine()
    return ProfiledEngine(
        model=spec.model,
        dtype=spec.dtype,
        device=spec.device,
        threads=plan.threads,
        machine=f"{machine.cpu}, {machine.cores} cores",
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        version=installed_version(),
        kv_bytes_per_token=timer.kv_bytes_per_token,
        block_size=BLOCK_TOKENS,
    )


def _tracked(cases: Sequence[CaseT], what: str) -> Iterator[CaseT]:
    return iter(track(cases, description=what, console=Console(stderr=True), transient=True))
