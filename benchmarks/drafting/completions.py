"""Recorded completions, which the scripts here replay; and the options that name them.

    --completions NAME=FILE.jsonl.gz   repeatable
    --tokenizer DIR                    needed for completions given as text

Completions are JSON lines with `group`, and `output_token_ids` or `text`, some `prompt_token_ids`.
"""

import argparse
import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Group:
    """A prompt's responses."""

    prompt: NDArray[np.int32]
    outputs: list[NDArray[np.int32]] = field(default_factory=list)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options above: `completions`, pairs of name and path, and `tokenizer`."""
    parser.add_argument("--completions", type=_named_path, action="append", default=[])
    parser.add_argument("--tokenizer", type=Path, help="needed for completions given as text")


def read_groups(path: Path, tokenizer: Path | None) -> list[Group]:
    """The groups of a file, in its order."""
    encode = _encoder(tokenizer) if tokenizer else None
    groups: dict[str, Group] = {}
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            group = groups.setdefault(str(row["group"]), Group(np.empty(0, np.int32)))
            if row.get("prompt_token_ids"):
                group.prompt = np.array(row["prompt_token_ids"], np.int32)
            tokens = row["output_token_ids"] if "output_token_ids" in row else encode(row["text"])
            group.outputs.append(np.array(tokens, np.int32))
    return list(groups.values())


def _encoder(folder: Path) -> Any:
    from tokenizers import Tokenizer  # noqa: PLC0415 - only for completions given as text

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def _named_path(text: str) -> tuple[str, Path]:
    name, path = text.split("=", 1)
    return name, Path(path)
