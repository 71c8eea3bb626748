"""The profile of an engine on a machine, as a JSON file. The one module of this room with IO."""

from pathlib import Path

import msgspec

from seer.costmodel.fit import FitErrors, fit_errors, fit_surface
from seer.costmodel.points import PrefillPoint, StepPoint, check_points
from seer.costmodel.step_time import SurfaceStepTime
from seer.errors import InvalidInput

_SLACK = 1e-3
"""Difference between stated and recomputed errors that rounding explains."""


class ProfiledEngine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured, where and when."""

    model: str
    dtype: str
    device: str
    threads: int
    machine: str
    date: str
    version: str = ""
    """Of seer."""
    kv_bytes_per_token: float = 0.0
    """0: not recorded."""
    block_size: int = 16
    """Tokens a KV block."""


class KVCopySpeed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Copying KV between an instance and the host tier of the pool."""

    export_bytes_per_s: float
    load_bytes_per_s: float


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measured points, the surface fitted to them and how well it fits."""

    engine: ProfiledEngine
    points: tuple[StepPoint, ...]
    prefill_points: tuple[PrefillPoint, ...]
    step_time: SurfaceStepTime
    errors: FitErrors
    kv_copy: KVCopySpeed | None = None


def make_profile(
    engine: ProfiledEngine,
    points: tuple[StepPoint, ...],
    prefill_points: tuple[PrefillPoint, ...],
    kv_copy: KVCopySpeed | None = None,
) -> Profile:
    """A profile of measured points. Raises InvalidInput as fit_surface does."""
    step_time = fit_surface(points, prefill_points)
    return Profile(
        engine=engine,
        points=points,
        prefill_points=prefill_points,
        step_time=step_time,
        errors=fit_errors(step_time, points, prefill_points),
        kv_copy=kv_copy,
    )


def write_profile(path: Path, profile: Profile) -> None:
    """Write a profile. Raises InvalidInput when the file cannot be written."""
    text = msgspec.json.format(msgspec.json.encode(profile), indent=1)
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise InvalidInput("profile", str(path), f"allowed: a writable file ({error})") from error


def read_profile(path: Path) -> Profile:
    """Read and check a profile.

    Raises InvalidInput, naming file and field, when the file is unreadable, has unknown or missing
    fields, impossible or contradictory points, or coefficients that do not predict its points as
    well as it states.
    """
    try:
        profile = msgspec.json.decode(path.read_bytes(), type=Profile)
        check_points(profile.points, profile.prefill_points)
    except OSError as error:
        raise InvalidInput("profile", str(path), f"allowed: a readable file ({error})") from error
    except (msgspec.DecodeError, InvalidInput) as error:
        raise InvalidInput("profile", str(path), f"allowed: a profile; {error}") from error
    _check_coefficients(path, profile)
    return profile


def _check_coefficients(path: Path, profile: Profile) -> None:
    found = fit_errors(profile.step_time, profile.points, profile.prefill_points)
    for name in found.__struct_fields__:
        stated, actual = getattr(profile.errors, name), getattr(found, name)
        if not actual <= stated + _SLACK:
            raise InvalidInput(
                "profile",
                str(path),
                f"its step_time contradicts its points: off by {actual:.1%}, errors.{name} states "
                f"{stated:.1%}; allowed: what `seer profile` wrote",
            )
