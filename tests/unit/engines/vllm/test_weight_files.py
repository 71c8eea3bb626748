"""Whether weights fit a model, from the files' headers."""

import json
from pathlib import Path

import pytest

from seer.engines.vllm.weight_files import check_fit, read_shapes
from seer.errors import EngineFailure

MODEL = {"a.weight": (2, 3), "lm_head.weight": (5, 2)}


def _write(path: Path, shapes: dict[str, list[int]]) -> None:
    header = {name: {"dtype": "F32", "shape": shape} for name, shape in shapes.items()}
    data = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(data).to_bytes(8, "little") + data)


def test_shapes_of_several_files(tmp_path: Path) -> None:
    """The tensors of all files, without the metadata."""
    _write(tmp_path / "1.safetensors", {"a": [2, 3]})
    _write(tmp_path / "2.safetensors", {"b": [4]})
    assert read_shapes(str(tmp_path)) == {"a": (2, 3), "b": (4,)}


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"[]"])
def test_broken_file(content: bytes, tmp_path: Path) -> None:
    """A file that is none is named."""
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(EngineFailure, match=r"x\.safetensors"):
        read_shapes(str(tmp_path))


def test_no_files(tmp_path: Path) -> None:
    """A directory without weights is named."""
    with pytest.raises(EngineFailure, match=r"no \*\.safetensors"):
        read_shapes(str(tmp_path))


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ({"lm_head.weight": (5, 2)}, "missing: a.weight"),
        (MODEL | {"b.weight": (1,)}, "not the model's: b.weight"),
        (MODEL | {"a.weight": (3, 2)}, "other shapes: a.weight"),
        ({"a.weight": (2, 3)}, "missing: lm_head.weight"),
    ],
)
def test_unfit(new: dict[str, tuple[int, ...]], why: str) -> None:
    """What does not fit is named."""
    with pytest.raises(EngineFailure, match=why):
        check_fit(new, MODEL, tied_embeddings=False)


def test_tied_head_is_optional() -> None:
    """With tied embeddings trainers write the head or leave it out."""
    check_fit({"a.weight": (2, 3)}, MODEL, tied_embeddings=True)
    check_fit(MODEL, {"a.weight": (2, 3)}, tied_embeddings=True)
