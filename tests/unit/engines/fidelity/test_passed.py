"""What has passed stays known, and only for what was checked."""

from pathlib import Path

import msgspec
import pytest

from seer.engines.fidelity.passed import (
    Subject,
    forget,
    has_passed,
    record,
    require_passed,
    subject_of,
)
from seer.engines.fidelity.report import CheckReport
from seer.errors import InvalidInput
from seer.types import SamplingParams

PASSED = CheckReport(false_alarm=0.001, least_p=1e-4, arms=())


def subject(directory: Path, sampling: SamplingParams | None = None) -> Subject:
    (directory / "config.json").write_text("{}")
    return made(directory, sampling or SamplingParams())


def made(directory: Path, sampling: SamplingParams) -> Subject:
    return subject_of(
        engine="vllm",
        version="9.9",
        device="cuda:1",
        dtype="bfloat16",
        model=str(directory),
        sampling=sampling,
    )


def test_a_passed_check_is_remembered_for_the_same_settings_only(tmp_path: Path) -> None:
    """Another dtype, version or filter has to pass by itself."""
    one = subject(tmp_path)
    assert not has_passed(tmp_path, one)
    record(tmp_path, one, PASSED)
    assert has_passed(tmp_path, one)
    require_passed(tmp_path, one, "seer")
    assert one.device == "cuda"
    for other in (
        msgspec.structs.replace(one, dtype="float32"),
        msgspec.structs.replace(one, version="9.10"),
        subject(tmp_path, SamplingParams(top_p=0.9)),
    ):
        assert not has_passed(tmp_path, other)


def test_what_is_on_the_list_needs_no_check(tmp_path: Path) -> None:
    """Of that version, device and dtype, for any model."""
    one = msgspec.structs.replace(
        subject(tmp_path), version="0.32.0", device="cpu", dtype="float32"
    )
    assert has_passed(tmp_path, one)
    assert not has_passed(tmp_path, msgspec.structs.replace(one, device="cuda"))


def test_a_failure_takes_it_back(tmp_path: Path) -> None:
    """The later check counts."""
    one = subject(tmp_path)
    record(tmp_path, one, PASSED)
    forget(tmp_path, one)
    forget(tmp_path, one)
    assert not has_passed(tmp_path, one)


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    """It must be made again."""
    one = subject(tmp_path)
    record(tmp_path, one, PASSED).write_text("{")
    assert not has_passed(tmp_path, one)


def test_the_refusal_says_what_to_run(tmp_path: Path) -> None:
    """With the flags of the check, and the filters that it must have."""
    one = subject(tmp_path, SamplingParams(top_k=5, min_p=0.1))
    with pytest.raises(InvalidInput) as caught:
        require_passed(tmp_path, one, "seer")
    message = str(caught.value)
    assert "seer check --engine vllm --device cuda --dtype bfloat16" in message
    assert "top_k and min_p" in message


def test_a_model_without_configuration_is_refused(tmp_path: Path) -> None:
    """There is nothing to tell it by."""
    with pytest.raises(InvalidInput, match=r"config\.json"):
        made(tmp_path / "none", SamplingParams())
