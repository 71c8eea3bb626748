import pytest

from seer.errors import InvalidInput
from seer.trainers.prompt_runs import prompt_runs


def test_runs_become_groups_in_order() -> None:
    """[p, p, q, q] of size 2 is the groups p and q."""
    assert prompt_runs(["p", "p", "q", "q"], 2) == ["p", "q"]


def test_equal_neighbours_are_two_groups_of_one_prompt() -> None:
    """A prompt drawn twice in a row keeps its two groups."""
    assert prompt_runs(["p"] * 4 + ["q"] * 2, 2) == ["p", "p", "q"]


def test_messages_are_compared_by_their_content() -> None:
    """Message lists that were copied are still the same prompt."""
    rows = [[{"role": "user", "content": "hi"}] for _ in range(3)]
    assert prompt_runs(rows, 3) == [rows[0]]


@pytest.mark.parametrize("prompts", [[], ["p", "p", "p"]])
def test_whole_groups_are_demanded(prompts: list[str]) -> None:
    """A batch that is no multiple of the group size is refused."""
    with pytest.raises(InvalidInput, match=r"multiple of num_generations \(2\)"):
        prompt_runs(prompts, 2)


def test_a_broken_run_names_its_rows() -> None:
    """Prompts that were not repeated by TRL are refused, with the rows that differ."""
    with pytest.raises(InvalidInput, match="rows 2 and 3 differ"):
        prompt_runs(["p", "p", "q", "r"], 2)
