"""Which engines have passed the check: a list of ours, and a file for each that passed here.

What decides is everything that sampling depends on: engine and version, device, dtype, the filters
in use, and for what is not on the list the model too.
"""

import hashlib
from pathlib import Path

import msgspec

from seer.engines.fidelity.report import CheckReport
from seer.errors import InvalidInput
from seer.types import SamplingParams

VLLM = "vllm"
_DIRECTORY = "fidelity"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What passes or fails."""

    engine: str
    """As in `--engine`."""
    version: str
    device: str
    dtype: str
    filters: tuple[str, ...]
    """Of the sampling: which of top_p, top_k and min_p are on."""
    model: str
    """Digest of its config.json."""

    @property
    def file_name(self) -> str:
        """Of its record."""
        digest = hashlib.blake2b(msgspec.json.encode(self), digest_size=12)
        return f"{self.engine}-{self.version}-{digest.hexdigest()}.json"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A passed check, as it is kept."""

    subject: Subject
    report: CheckReport


TRIED = frozenset({(VLLM, "0.32.0", "cpu", "float32"), (VLLM, "0.32.0", "cpu", "bfloat16")})
"""Engine, version, device and dtype of what has passed; docs/fidelity.md has the numbers."""


def subject_of(
    *, engine: str, version: str, device: str, dtype: str, model: str, sampling: SamplingParams
) -> Subject:
    """The subject of a rollout or a check.

    Raises InvalidInput when the model's directory has no config.json.
    """
    try:
        config = (Path(model) / "config.json").read_bytes()
    except OSError as error:
        allowed = f"allowed: a directory with config.json ({error})"
        raise InvalidInput("model", model, allowed) from error
    off = {"top_p": 1, "top_k": 0, "min_p": 0}
    return Subject(
        engine=engine,
        version=version,
        device=device.partition(":")[0],
        dtype=dtype,
        filters=tuple(name for name, value in off.items() if getattr(sampling, name) != value),
        model=hashlib.blake2b(config, digest_size=16).hexdigest(),
    )


def record(cache: Path, subject: Subject, report: CheckReport) -> Path:
    """Keep that the subject has passed; returns the file. Raises OSError where it cannot."""
    path = cache / _DIRECTORY / subject.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.encode(Record(subject=subject, report=report))
    path.write_bytes(msgspec.json.format(data))
    return path


def forget(cache: Path, subject: Subject) -> None:
    """It has failed now, whatever was before."""
    (cache / _DIRECTORY / subject.file_name).unlink(missing_ok=True)


def has_passed(cache: Path, subject: Subject) -> bool:
    """Whether it is on the list, or has passed here."""
    if (subject.engine, subject.version, subject.device, subject.dtype) in TRIED:
        return True
    try:
        data = (cache / _DIRECTORY / subject.file_name).read_bytes()
        kept = msgspec.json.decode(data, type=Record)
    except (OSError, msgspec.DecodeError):
        return False
    return kept.subject == subject and kept.report.passed


def require_passed(cache: Path, subject: Subject, drafting: str) -> None:
    """Raise InvalidInput when drafts are to be verified by an engine that has not passed."""
    if not has_passed(cache, subject):
        flags = f"--engine {subject.engine} --device {subject.device} --dtype {subject.dtype}"
        with_filters = f", with {' and '.join(subject.filters)}" if subject.filters else ""
        raise InvalidInput(
            "drafting",
            drafting,
            f"allowed: off, until {subject.engine} {subject.version} has passed `seer check "
            f"{flags}` with this model{with_filters}",
        )
