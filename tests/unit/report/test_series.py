import numpy as np
import pytest

from seer.report.series import Lines, Steps, lines_of_changes


def test_steps_are_averaged_over_bins() -> None:
    """0 before the first, and the last value holds on."""
    steps = Steps(np.array([1.0, 2.0, 2.5]), np.array([4.0, 8.0, 0.0]))
    assert steps.on_grid(np.array([0.0, 2.0, 3.0, 4.0])) == pytest.approx([2.0, 4.0, 0.0])


def test_nothing_is_zero() -> None:
    """An empty series has a value in every bin."""
    none = np.array([])
    edges = np.array([0.0, 1.0, 2.0])
    assert Steps(none, none).on_grid(edges).tolist() == [0.0, 0.0]
    assert Lines(none, none).on_grid(edges).tolist() == [0.0, 0.0]
    assert not len(lines_of_changes(none, none, none).times)


def test_lines_are_read_in_the_middle_of_bins() -> None:
    """Straight between points."""
    lines = Lines(np.array([0.0, 4.0]), np.array([0.0, 8.0]))
    assert lines.on_grid(np.array([0.0, 2.0, 4.0])) == pytest.approx([2.0, 6.0])


def test_changes_of_level_and_slope_add_up() -> None:
    """A jump of 10 at 1, growth by 2 a second from 2 to 4, all gone at 5; in any order."""
    lines = lines_of_changes(
        np.array([5.0, 1.0, 2.0, 4.0]),
        np.array([-14.0, 10.0, 0.0, 0.0]),
        np.array([0.0, 0.0, 2.0, -2.0]),
    )
    values = lines.on_grid(np.array([0.0, 1.0, 2.0, 4.0, 5.0, 6.0]))
    assert values == pytest.approx([0.0, 10.0, 12.0, 14.0, 0.0])
