from seer.trainers.draw_seeds import DrawSeeds
from seer.types import MAX_SEED


def test_a_resumed_run_gets_the_seeds_of_an_uninterrupted_one() -> None:
    """Seeds hang on the step, not on how many calls came before it."""
    whole = DrawSeeds()
    seeds = [whole.next(1, step, is_training=True) for step in range(4)]
    resumed = DrawSeeds()
    assert [resumed.next(1, step, is_training=True) for step in (2, 3)] == seeds[2:]


def test_calls_of_one_step_get_seeds_of_their_own() -> None:
    """Batches of one step, and an evaluation at it, share no draws."""
    seeds = DrawSeeds()
    drawn = [
        *(seeds.next(1, 0, is_training=True) for _ in range(3)),
        *(seeds.next(1, 0, is_training=False) for _ in range(3)),
    ]
    assert len(set(drawn)) == 6
    assert all(0 <= seed <= MAX_SEED for seed in drawn)


def test_an_evaluation_does_not_shift_training() -> None:
    """Evaluating more or less often leaves the draws of training alone."""
    plain, evaluated = DrawSeeds(), DrawSeeds()
    evaluated.next(1, 0, is_training=False)
    assert evaluated.next(1, 0, is_training=True) == plain.next(1, 0, is_training=True)


def test_runs_of_other_seeds_draw_otherwise() -> None:
    """The run's seed is part of every key."""
    assert DrawSeeds().next(1, 0, is_training=True) != DrawSeeds().next(2, 0, is_training=True)
