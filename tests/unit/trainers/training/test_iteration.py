"""The split of an iteration, and the lines made of it."""

import pytest

from seer.trainers.training.iteration import IterationClock, Split
from seer.trainers.training.step_row import StepFigures
from unit.trainers.training.fakes import sample


def test_the_parts_of_an_iteration_make_its_total() -> None:
    """Parts are what was measured; `other` is the rest."""
    times = iter((100.0, 108.0, 111.0))
    clock = IterationClock(lambda: next(times))
    clock.start()
    clock.rolled_out(rollout_s=6.0, weight_update_s=0.5, check_s=0.25)
    clock.scored(reward_wait_s=1.0)
    split = clock.finish()
    assert (split.total_s, split.train_s, split.other_s) == (11.0, 3.0, 0.25)


def test_the_line_of_a_step() -> None:
    """Means over responses, in all and by task, and tokens over the seconds of rollout."""
    split = Split(
        total_s=8.0,
        rollout_s=4.0,
        reward_wait_s=1.0,
        train_s=2.0,
        weight_update_s=0.5,
        check_s=0.0,
    )
    samples = (sample("a", 1.0, 10), sample("a", 0.0, 20), sample("b", 0.5, 30, "KeyError"))
    figures = StepFigures(samples=samples, split=split, difference=None)
    logs = {"loss": 0.1, "grad_norm": 2.0, "learning_rate": 1e-5}
    row = figures.row(3, logs)
    assert (row.step, row.reward, row.reward_by_task) == (3, 0.5, {"a": 0.5, "b": 0.5})
    assert (row.num_tokens, row.mean_tokens, row.tokens_per_s) == (60, 20.0, 15.0)
    assert (row.num_reward_errors, row.other_s, row.loss) == (1, 0.5, 0.1)
    assert figures.logs()["seer/other_s"] == pytest.approx(0.5)
