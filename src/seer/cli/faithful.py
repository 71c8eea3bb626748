"""Drafts on an engine that samples by itself: only where that has passed `seer check`."""

import os
from pathlib import Path

from seer.cli.model import CACHE_VARIABLE
from seer.engines.fidelity.passed import (
    VLLM,
    Subject,
    forget,
    record,
    require_passed,
    subject_of,
)
from seer.engines.fidelity.report import CheckReport
from seer.engines.local.default_model import default_cache_dir
from seer.engines.vllm.spec import VllmSpec
from seer.engines.vllm.versions import check_vllm
from seer.types import SamplingParams

__all__ = ["VLLM", "keep_verdict", "require_faithful"]


def require_faithful(spec: VllmSpec, drafting: str, sampling: SamplingParams) -> None:
    """Refuse drafts on a vLLM that has not passed the check.

    Greedy sampling draws nothing and needs none. Raises InvalidInput; EngineFailure without vLLM.
    """
    if sampling.temperature > 0:
        require_passed(_cache(), _subject(spec, sampling), drafting)


def keep_verdict(spec: VllmSpec, sampling: SamplingParams, report: CheckReport) -> Path | None:
    """Remember that the check was passed, in the returned file, or that it was not."""
    subject = _subject(spec, sampling)
    if report.passed:
        return record(_cache(), subject, report)
    forget(_cache(), subject)
    return None


def _subject(spec: VllmSpec, sampling: SamplingParams) -> Subject:
    return subject_of(
        engine=VLLM,
        version=check_vllm(spec.device, allow_untried=spec.allow_untried),
        device=spec.device,
        dtype=spec.dtype,
        model=spec.model,
        sampling=sampling,
    )


def _cache() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else default_cache_dir()
