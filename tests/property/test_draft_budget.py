"""Budgets over random batches: bounds, order, and the best that any number of nodes gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from seer.costmodel.step_time import Bend, SurfaceStepTime
from seer.drafting.acceptance import AcceptanceSettings, AcceptanceStatistics
from seer.drafting.budget import Budget, DraftBatch, FixedBudget, MarginalBenefit, SeerBudget
from seer.drafting.outcomes import accepted_nodes, known_outcomes
from seer.drafting.suffix_tree import Drafts

chances = st.floats(0, 1, width=32)
times = st.floats(1e-3, 10)


@st.composite
def batches(draw: st.DrawFn) -> DraftBatch:
    """Up to 12 requests with up to 12 nodes each."""
    drafts = draw(st.lists(st.lists(chances, max_size=12), max_size=12))
    size = len(drafts)
    beta = sorted(draw(st.lists(chances, max_size=12)), reverse=True)
    return DraftBatch(
        is_probe=np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_),
        weights=np.array(draw(st.lists(st.floats(0.1, 10), min_size=size, max_size=size))),
        probabilities=np.array([p for each in drafts for p in sorted(each, reverse=True)]),
        offsets=np.cumsum([0, *map(len, drafts)]).astype(np.int32),
        acceptance=np.array([1.0, *beta]),
        context_tokens=draw(st.floats(0, 1e5)),
    )


@st.composite
def step_times(draw: st.DrawFn) -> SurfaceStepTime:
    """Dearer from some number of tokens on."""
    low = draw(times)
    bend = Bend(above_tokens=draw(st.integers(1, 60)), per_token_s=low * draw(st.floats(1, 50)))
    return SurfaceStepTime(fixed_s=draw(times), per_token_s=low, bends=(bend,))


@given(batches(), step_times(), st.integers(0, 9))
def test_nobody_gets_more_than_it_has(
    batch: DraftBatch, step_time: SurfaceStepTime, most: int
) -> None:
    """From 0 to its draft, and to the budget's own bound where there is one for each request."""
    budgets: list[tuple[Budget, int]] = [
        (FixedBudget(most), most),
        (MarginalBenefit(step_time=step_time, max_positions=most), most),
        (SeerBudget(step_time=step_time), 12),
    ]
    for budget, bound in budgets:
        allotted = budget.allot(batch)
        assert allotted.shape == batch.sizes.shape
        assert (allotted >= 0).all()
        assert (allotted <= np.minimum(batch.sizes, bound)).all()


@given(batches(), step_times())
def test_seer_reaches_the_best_rate(batch: DraftBatch, step_time: SurfaceStepTime) -> None:
    """No number of the batch's best nodes gives more weighted tokens a second, or none enough."""
    budget = SeerBudget(step_time=step_time)
    allotted = budget.allot(batch)
    weights = batch.weights * np.where(batch.is_probe, budget.probe_weight, 1.0)
    size = batch.num_requests

    def values(counts: np.ndarray) -> list[float]:
        return [
            float(weights[i] * p)
            for i in range(size)
            for p in batch.probabilities[batch.offsets[i] : batch.offsets[i] + counts[i]]
        ]

    def rate(found: list[float]) -> float:
        seconds = step_time.step_s(size, size + len(found), batch.context_tokens)
        return float((weights.sum() + sum(found)) / seconds)

    ranked = sorted(values(batch.sizes), reverse=True)
    best = max(rate(ranked[:n]) for n in range(len(ranked) + 1))
    if allotted.any():
        assert rate(values(allotted)) >= best * (1 - 1e-9)
    else:
        assert best <= (1 + budget.min_gain) * rate([]) * (1 + 1e-9)


@given(batches(), step_times(), st.data())
def test_seer_gives_the_surer_request_no_less(
    batch: DraftBatch, step_time: SurfaceStepTime, data: st.DataObject
) -> None:
    """Of two requests alike but for their chances, the one with all better ones gets as much."""
    mine = sorted(data.draw(st.lists(chances, min_size=1, max_size=8)), reverse=True)
    rise = data.draw(st.floats(0, 1))
    better = [p + (1 - p) * rise for p in mine]
    extra = len(batch.probabilities) + np.array([len(mine), 2 * len(mine)], np.int32)
    widened = DraftBatch(
        is_probe=np.append(batch.is_probe, [False, False]),
        weights=np.append(batch.weights, [1.0, 1.0]),
        probabilities=np.concatenate([batch.probabilities, better, mine]),
        offsets=np.append(batch.offsets, extra).astype(np.int32),
        acceptance=batch.acceptance,
        context_tokens=batch.context_tokens,
    )
    allotted = SeerBudget(step_time=step_time).allot(widened)
    assert allotted[-2] >= allotted[-1]


@given(batches(), st.floats(0.01, 10))
def test_budgets_are_off_where_drafts_cannot_pay(batch: DraftBatch, token_s: float) -> None:
    """A step that takes as long as it has tokens: an unsure token never pays.

    A request of less weight than the mean is worth less still; weights are left out here.
    """
    dear = SurfaceStepTime(fixed_s=0.0, per_token_s=token_s)
    unsure = DraftBatch(
        is_probe=np.zeros(batch.num_requests, np.bool_),
        weights=np.ones(batch.num_requests),
        probabilities=batch.probabilities * 0.9,
        offsets=batch.offsets,
        acceptance=np.append(1.0, 0.9 * batch.acceptance[1:]),
        context_tokens=0.0,
    )
    assert SeerBudget(step_time=dear).allot(unsure).sum() == 0
    assert MarginalBenefit(step_time=dear).allot(unsure).sum() == 0


@settings(max_examples=30)
@given(st.integers(0, 64), st.integers(0, 64), st.floats(0, 0.99), st.floats(0, 0.99), step_times())
def test_more_acceptance_drafts_no_less(
    num_probes: int, num_rest: int, one: float, other: float, step_time: SurfaceStepTime
) -> None:
    """The paper's gamma* does not fall as acceptance rises."""
    policy = MarginalBenefit(step_time=step_time)
    low, high = (np.array([a**i for i in range(9)]) for a in sorted([one, other]))
    size = num_probes + num_rest
    assert policy.best_positions(size, low, 0.0) <= policy.best_positions(size, high, 0.0)


@st.composite
def trees(draw: st.DrawFn) -> Drafts:
    """Up to 6 requests with trees of up to 8 nodes, siblings told apart by their tokens."""
    sizes = draw(st.lists(st.integers(0, 8), min_size=1, max_size=6))
    nodes: list[tuple[int, int]] = []
    for size in sizes:
        used: set[tuple[int, int]] = set()
        for place in range(size):
            parent, token = draw(st.integers(-1, place - 1)), draw(st.integers(0, 3))
            while (parent, token) in used:
                token += 1
            used.add((parent, token))
            nodes.append((parent, token))
    return Drafts(
        token_ids=np.array([token for _, token in nodes], np.int32),
        parents=np.array([parent for parent, _ in nodes], np.int32),
        probabilities=np.full(len(nodes), 0.5, np.float32),
        offsets=np.cumsum([0, *sizes]).astype(np.int32),
        match_lengths=np.zeros(len(sizes), np.int32),
    )


@given(trees(), st.data())
def test_what_is_known_is_what_would_have_been_verified(
    drafts: Drafts, data: st.DataObject
) -> None:
    """A known node is accepted just where the whole draft, verified, would have accepted it."""
    counts, texts, expected = [], [], []
    for request in range(len(drafts.match_lengths)):
        nodes = drafts.nodes(request)
        tokens, parents = drafts.token_ids[nodes], drafts.parents[nodes]
        count = data.draw(st.integers(0, len(tokens)))
        text = data.draw(st.lists(st.integers(0, 3), min_size=10, max_size=10))
        right = accepted_nodes(tokens[:count], parents[:count], np.array(text, np.int32))
        counts.append(count)
        texts.append(text[: int(right.sum()) + 1])
        expected.append(accepted_nodes(tokens, parents, np.array(text, np.int32)))
    known, accepted = known_outcomes(drafts, np.array(counts, np.int32), texts)
    for request, right in enumerate(expected):
        first = drafts.nodes(request).start
        num_known = known[request]
        assert counts[request] <= num_known <= len(right)
        found = accepted[first : first + len(right)]
        assert found[:num_known].tolist() == right[:num_known].tolist()
        assert not found[num_known:].any()


@given(st.lists(st.tuples(chances, st.booleans()), max_size=200), st.lists(chances, max_size=50))
def test_calibration_keeps_order_and_bounds(
    outcomes: list[tuple[float, bool]], estimates: list[float]
) -> None:
    """Whatever was observed, a likelier node stays one, and a chance a chance."""
    statistics = AcceptanceStatistics(AcceptanceSettings(num_bins=10))
    probabilities = np.array([p for p, _ in outcomes], np.float32)
    statistics._observe_bins(probabilities, np.array([a for _, a in outcomes], np.bool_))
    calibrated = statistics.calibrate(np.array(sorted(estimates)))
    assert (np.diff(calibrated) >= -1e-12).all()
    assert ((calibrated >= 0) & (calibrated <= 1)).all()
