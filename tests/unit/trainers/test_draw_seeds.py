from types import SimpleNamespace

from seer.trainers.draw_seeds import DrawSeeds
from seer.types import MAX_SEED


def steps(seeds: DrawSeeds, first: int, last: int) -> list[int]:
    """Seeds of the training calls of a run from one step to another."""
    state = SimpleNamespace(global_step=first)
    drawn = []
    while state.global_step <= last:
        drawn.append(seeds.next(1, state, is_training=True))
        state.global_step += 1
    return drawn


def test_a_resumed_run_gets_the_seeds_of_an_uninterrupted_one() -> None:
    """Seeds hang on the step, not on how many calls came before it."""
    assert steps(DrawSeeds(), 2, 3) == steps(DrawSeeds(), 0, 3)[2:]


def test_a_run_resumed_in_the_same_process_counts_anew() -> None:
    """The last step's call of the run before is not counted to the new run's."""
    seeds = DrawSeeds()
    whole = steps(seeds, 0, 2)
    assert steps(seeds, 2, 2) == whole[2:]


def test_calls_of_one_step_get_seeds_of_their_own() -> None:
    """Batches of one step, and an evaluation at it, share no draws."""
    seeds, state = DrawSeeds(), SimpleNamespace(global_step=0)
    drawn = [
        *(seeds.next(1, state, is_training=True) for _ in range(3)),
        *(seeds.next(1, state, is_training=False) for _ in range(3)),
    ]
    assert len(set(drawn)) == 6
    assert all(0 <= seed <= MAX_SEED for seed in drawn)


def test_an_evaluation_does_not_shift_training() -> None:
    """Evaluating more or less often leaves the draws of training alone."""
    state = SimpleNamespace(global_step=0)
    plain, evaluated = DrawSeeds(), DrawSeeds()
    evaluated.next(1, state, is_training=False)
    assert evaluated.next(1, state, is_training=True) == plain.next(1, state, is_training=True)


def test_runs_of_other_seeds_draw_otherwise() -> None:
    """The run's seed is part of every key."""
    state = SimpleNamespace(global_step=0)
    first, second = (DrawSeeds().next(seed, state, is_training=True) for seed in (1, 2))
    assert first != second
