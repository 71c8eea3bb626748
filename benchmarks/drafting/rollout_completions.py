"""Completions of `seer rollout`, or recorded ones, for the scripts here that replay groups."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from completions import Group, read_groups

COLUMNS = ["prompt_id", "member", "prompt_token_ids", "output_token_ids"]


def read_completions(path: Path, tokenizer: Path | None) -> list[Group]:
    """The groups of a rollout's completions.parquet, by prompt; or of a file as in completions.py.

    Members are in order, whenever they finished.
    """
    if path.suffix != ".parquet":
        return read_groups(path, tokenizer)
    rows = pq.read_table(path, columns=COLUMNS).to_pylist()
    groups: dict[str, Group] = {}
    for row in sorted(rows, key=lambda row: (row["prompt_id"], row["member"])):
        prompt = np.array(row["prompt_token_ids"], np.int32)
        group = groups.setdefault(row["prompt_id"], Group(prompt))
        group.outputs.append(np.array(row["output_token_ids"], np.int32))
    return list(groups.values())
