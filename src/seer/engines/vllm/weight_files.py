"""Whether a directory's safetensors files fit a model: names and shapes, from the files' headers.

vLLM loads what it is given: names that it lacks it logs, and goes on with some old weights and some
new ones. So the check is made before. No torch, no vLLM.
"""

import json
from pathlib import Path

from seer.errors import EngineFailure

_LENGTH_BYTES = 8
_HEAD = "lm_head.weight"
_SHOWN = 3
"""Most names that a message lists."""

Shapes = dict[str, tuple[int, ...]]


def read_shapes(directory: str) -> Shapes:
    """Shape by tensor name. Raises EngineFailure when there are no files, or broken ones."""
    paths = sorted(Path(directory).glob("*.safetensors"))
    if not paths:
        raise EngineFailure(f"no *.safetensors files in {directory}")
    shapes: Shapes = {}
    for path in paths:
        try:
            shapes.update(_read_header(path))
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise EngineFailure(f"{path} is not a safetensors file ({error})") from error
    return shapes


def check_fit(new: Shapes, model: Shapes, *, tied_embeddings: bool) -> None:
    """Raise EngineFailure unless `new` has the tensors of `model`.

    Trainers write the output head of a model with tied embeddings, or leave it out, as they like.
    """
    optional = {_HEAD} if tied_embeddings else set()
    missing = sorted(model.keys() - new.keys() - optional)
    foreign = sorted(new.keys() - model.keys() - optional)
    other_shape = sorted(name for name in new.keys() & model.keys() if new[name] != model[name])
    for what, names in (
        ("are missing", missing),
        ("are not the model's", foreign),
        ("have other shapes", other_shape),
    ):
        if names:
            shown = ", ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
            raise EngineFailure(f"the weights do not fit the model: {len(names)} {what}: {shown}")


def _read_header(path: Path) -> Shapes:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > path.stat().st_size:
            raise ValueError("its header is longer than the file")
        header = json.loads(file.read(length))
    return {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
