import numpy as np
import pytest

from seer.errors import InvalidInput
from seer.simulator.length_model import draw_lengths, make_groups
from seer.simulator.paper_workloads import PAPER_WORKLOADS

SHAPE = {"mean_tokens": 800.0, "max_tokens": 4096, "sigma_between": 0.8, "sigma_within": 0.3}


def test_lengths_have_the_wanted_mean_and_stay_within_the_limit() -> None:
    """The mean after both cuts, over many groups."""
    lengths = draw_lengths(4000, 8, seed=0, **SHAPE)  # type: ignore[arg-type]
    assert lengths.mean() == pytest.approx(800, rel=0.03)
    assert lengths.min() >= 64
    assert lengths.max() == 4096


def test_members_of_a_group_are_alike_as_the_sigmas_say() -> None:
    """Without a limit in the way."""
    lengths = draw_lengths(
        4000,
        8,
        mean_tokens=800,
        max_tokens=10**7,
        sigma_between=0.8,
        sigma_within=0.3,
        seed=0,
        min_tokens=1,
    )
    logs = np.log(lengths)
    assert logs.std(axis=1, ddof=1).mean() == pytest.approx(0.3, rel=0.06)
    assert logs.mean(axis=1).std() == pytest.approx(0.8, rel=0.06)


def test_a_seed_gives_its_lengths_again_and_another_one_others() -> None:
    """So that an experiment can be repeated."""
    first, again, other = (draw_lengths(5, 4, seed=s, **SHAPE) for s in (1, 1, 2))  # type: ignore[arg-type]
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("name", PAPER_WORKLOADS)
@pytest.mark.parametrize("group_size", [8, 16])
def test_the_paper_s_workloads_have_its_numbers(name: str, group_size: int) -> None:
    """Requests, mean length (Table 3); every cluster holds the longest request."""
    paper = PAPER_WORKLOADS[name]
    workload = paper.workload(0, group_size)
    assert workload.num_requests == paper.num_requests
    mean = workload.output_tokens / workload.num_requests
    assert mean == pytest.approx(paper.mean_tokens, rel=0.1)
    paper.cluster().check_holds(workload)


@pytest.mark.parametrize(
    ("field", "value"),
    [("mean_tokens", 5000), ("mean_tokens", 10), ("sigma_within", -1), ("max_tokens", 64)],
)
def test_impossible_shapes_are_refused(field: str, value: float) -> None:
    """Naming what is wrong."""
    with pytest.raises(InvalidInput, match="allowed"):
        draw_lengths(5, 4, seed=0, **{**SHAPE, field: value})  # type: ignore[arg-type]


def test_groups_carry_their_lengths() -> None:
    """As the simulator's truth and the oracle's knowledge."""
    groups = make_groups(np.array([[3, 4], [5, 6]]), num_prompt_tokens=9, max_tokens=10)
    assert [group.known_lengths for group in groups] == [(3, 4), (5, 6)]
