"""The responses of a step in micro-batches of like length, so that little of them is padding.

TRL pads every response of a step to the longest one and deals them at random. All micro-batches
of a step make one update, so which of them a response is in decides only what is computed in vain:
with lengths as long-tailed as a rollout's, most of it.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

MicroBatch = dict[str, Tensor | None]
"""TRL's: `prompt_ids`, `prompt_mask` [rows, prompt] padded on the left, `completion_ids`,
`completion_mask` [rows, completion] padded on the right, and values by row, by token or of all."""


def by_length(batches: Sequence[Mapping[str, Tensor | None]]) -> list[MicroBatch]:
    """The same rows in as many micro-batches of the same size, each as wide as its longest row.

    Raises ValueError on a value that is no tensor or None: it could not be dealt anew.
    """
    foreign = [k for k, v in batches[0].items() if not (v is None or isinstance(v, Tensor))]
    if foreign:
        raise ValueError(f"micro-batches of unknown form: {', '.join(foreign)}")
    whole = {name: _joined([batch[name] for batch in batches]) for name in batches[0]}
    lengths = _mask(whole, "prompt_mask").sum(1) + _mask(whole, "completion_mask").sum(1)
    order = torch.argsort(lengths, stable=True)
    rows = order.chunk(len(batches))
    return [_trimmed(_taken(whole, its_rows)) for its_rows in rows]


def _joined(values: Sequence[Tensor | None]) -> Tensor | None:
    tensors = [value for value in values if value is not None]
    if not tensors or tensors[0].ndim == 0:  # one value for all, in each micro-batch
        return values[0]
    return torch.cat(tensors)


def _taken(whole: MicroBatch, rows: Tensor) -> MicroBatch:
    return {name: v if v is None or v.ndim == 0 else v[rows] for name, v in whole.items()}


def _trimmed(batch: MicroBatch) -> MicroBatch:
    """Without the columns in which every row is padding."""
    prompts, completions = _mask(batch, "prompt_mask"), _mask(batch, "completion_mask")
    first = prompts.shape[1] - int(prompts.sum(1).max())
    end = int(completions.sum(1).max())
    return {name: _columns(name, v, completions.shape[1], first, end) for name, v in batch.items()}


def _columns(name: str, value: Tensor | None, width: int, first: int, end: int) -> Tensor | None:
    if value is None or value.ndim != 2:  # noqa: PLR2004 - [rows, tokens]
        return value
    if name.startswith("prompt_"):
        return value[:, first:]
    return value[:, :end] if value.shape[1] == width else value


def _mask(batch: Mapping[str, Tensor | None], name: str) -> Tensor:
    mask = batch[name]
    assert mask is not None  # noqa: S101 - TRL always gives both masks
    return mask
