"""A step's responses dealt into micro-batches of like length."""

import pytest

pytest.importorskip("torch")

import torch

from seer.trainers.training.micro_batches import MicroBatch, by_length

PROMPTS = [3, 1, 2, 3, 1, 2]
COMPLETIONS = [9, 1, 4, 2, 8, 3]


def batch(rows: list[int]) -> MicroBatch:
    """Row r's tokens are all r + 1, its values by token 10 * (r + 1)."""
    prompts = torch.tensor([[0] * (3 - PROMPTS[r]) + [1] * PROMPTS[r] for r in rows])
    completions = torch.tensor([[1] * COMPLETIONS[r] + [0] * (9 - COMPLETIONS[r]) for r in rows])
    marks = torch.tensor(rows)[:, None] + 1
    return {
        "prompt_ids": prompts * marks,
        "prompt_mask": prompts,
        "completion_ids": completions * marks,
        "completion_mask": completions,
        "ref_per_token_logps": 10.0 * completions * marks,
        "advantages": torch.tensor(rows) / 2,
        "num_items_in_batch": torch.tensor(27),
        "old_per_token_logps": None,
    }


def test_every_row_is_there_once_with_all_that_is_its_own() -> None:
    """Tokens, masks and values keep to their row, and no token is cut."""
    packed = by_length([batch([0, 1]), batch([2, 3]), batch([4, 5])])
    seen = []
    for micro in packed:
        assert {v.shape[0] for k, v in micro.items() if v is not None and v.ndim} == {2}
        assert micro["num_items_in_batch"] == 27
        assert micro["old_per_token_logps"] is None
        for place, advantage in enumerate(micro["advantages"].tolist()):
            row = int(2 * advantage)
            seen.append(row)
            for name, width, value in (
                ("prompt_ids", PROMPTS[row], row + 1),
                ("completion_ids", COMPLETIONS[row], row + 1),
                ("ref_per_token_logps", COMPLETIONS[row], 10 * (row + 1)),
            ):
                held = micro[name][place]
                assert held[held != 0].tolist() == [value] * width
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]


def test_like_lengths_are_together_and_no_column_is_padding_alone() -> None:
    """The short rows share a narrow micro-batch, the long ones a wide one."""
    packed = by_length([batch([0, 1]), batch([2, 3]), batch([4, 5])])
    assert [micro["completion_ids"].shape[1] for micro in packed] == [2, 4, 9]
    assert [micro["prompt_ids"].shape[1] for micro in packed] == [3, 2, 3]
    for micro in packed:
        assert micro["prompt_mask"].any(0).all()
        assert micro["completion_mask"].any(0).all()


def test_what_cannot_be_dealt_is_refused() -> None:
    """A list by row, such as a vision model's, is named rather than lost."""
    with pytest.raises(ValueError, match="num_images"):
        by_length([batch([0, 1]) | {"num_images": [1, 1]}])
