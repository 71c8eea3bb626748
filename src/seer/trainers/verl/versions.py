"""Which verl is installed, and whether Seer was tried with it. Imports no verl.

The registry of verl's rollout adapters is a private dictionary, and its agent loops are still under
`experimental`: a release that was not tried is refused unless the user says go on.
"""

from importlib import metadata
from importlib.util import find_spec

from seer.errors import EngineFailure, InvalidInput

TRIED = ("0.9.1",)
"""Releases that the tests were run with."""

NEEDED = ("ray", "torch", "transformers", "safetensors", "cachetools", "uvicorn", "fastapi")
"""Modules that verl's rollout servers and routers, or Seer's engine, import."""

HOW_TO_INSTALL = "pip install 'seer-rl[verl]' into the environment of verl"


def installed_verl() -> str:
    """The installed release. Raises EngineFailure without one, or where a module is missing."""
    try:
        version = metadata.version("verl")
    except metadata.PackageNotFoundError:
        raise EngineFailure(f"verl is not installed here: {HOW_TO_INSTALL}") from None
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise EngineFailure(f"not installed here: {', '.join(missing)}; {HOW_TO_INSTALL}")
    return version


def check_verl(*, allow_untried: bool) -> str:
    """The installed release.

    Raises EngineFailure as `installed_verl`, InvalidInput when the release was not tried and that
    is not allowed.
    """
    version = installed_verl()
    if version not in TRIED and not allow_untried:
        allowed = (
            f"tried: {', '.join(TRIED)}; +actor_rollout_ref.rollout.custom.seer.allow_untried_verl"
            "=true goes on with another"
        )
        raise InvalidInput("verl", version, allowed)
    return version
